// Sending dead letters back.

import { post } from "./api";

export interface Redriven { offset: number; topic: string; partition: number; to_offset: number }
export interface NotRedriven { offset: number; code: string; message: string }
export interface RedriveAnswer { app: string; redriven: Redriven[]; refused: NotRedriven[] }

/** How many one call takes. */
export const MOST_AT_ONCE = 1000;

/** Sends dead letters back to the topics that they came from; `again`: also those that were sent before. A repetition of the call counts once. */
export function redrive(app: string, offsets: number[], reason: string, again: boolean, call: string): Promise<RedriveAnswer> {
  return post<RedriveAnswer>(`/apps/${encodeURIComponent(app)}/dead-letters/redrive`, { offsets, reason, again }, { "Idempotency-Key": call });
}
