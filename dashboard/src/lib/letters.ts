// Sending dead letters back.

import { post } from "./api";

export interface Redriven { offset: number; topic: string; partition: number; to_offset: number }
export interface NotRedriven { offset: number; code: string; message: string }
export interface RedriveAnswer { app: string; redriven: Redriven[]; refused: NotRedriven[] }

/** How many one call takes. */
export const MOST_AT_ONCE = 1000;

/** Sends dead letters back to the topics that they came from. A repetition of the call counts once. */
export function redrive(app: string, offsets: number[], reason: string, call: string): Promise<RedriveAnswer> {
  return post<RedriveAnswer>(`/apps/${encodeURIComponent(app)}/dead-letters/redrive`, { offsets, reason }, { "Idempotency-Key": call });
}
