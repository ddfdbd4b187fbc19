import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// The same sources make the same bytes, in whatever folder they are.
export default defineConfig({
  base: "/ui/",
  plugins: [
    svelte({
      compilerOptions: {
        // Elements are created one by one: no innerHTML, which Trusted Types would refuse.
        fragments: "tree",
        runes: true,
        cssHash: ({ css, hash }) => `s-${hash(css)}`,
      },
    }),
  ],
  build: {
    target: "es2022",
    outDir: "dist",
    emptyOutDir: true,
    cssCodeSplit: false,
    modulePreload: false,
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    license: false,
  },
  worker: { format: "es" },
  logLevel: "warn",
});
