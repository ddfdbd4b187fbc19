import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.util.Map;
import org.yaml.snakeyaml.LoaderOptions;
import org.yaml.snakeyaml.Yaml;
import org.yaml.snakeyaml.constructor.SafeConstructor;

/** Prints a YAML file as JSON, with the parser that Spark brings. A key that stands twice is an error. */
class YamlToJson {
    public static void main(String[] arguments) throws Exception {
        LoaderOptions options = new LoaderOptions();
        options.setAllowDuplicateKeys(false);
        Yaml yaml = new Yaml(new SafeConstructor(options));
        try (var text = new java.io.FileReader(new File(arguments[0]))) {
            Map<String, Object> found = yaml.load(text);
            System.out.println(new ObjectMapper().writeValueAsString(found));
        }
    }
}
