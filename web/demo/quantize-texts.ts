// What the page says of its threads, of a recovery and of operators left in float.
import { formatSeconds } from "./page.js";
import type { Equipment, Quantized } from "./protocol.js";

// With what the page computes, and why it has one thread where it has one.
export function equipmentText({ threads, isolated }: Equipment): string {
  if (threads > 1) return `Uses ${threads} threads.`;
  const why = !isolated
    ? "a browser gives more to pages that are cross-origin isolated, whose server sends the headers " +
      "Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp"
    : navigator.hardwareConcurrency > 1
      ? "the browser could not start workers for more"
      : "this machine has one processor";
  return `Uses one thread: ${why}.`;
}

// What the remedies brought together, and which of them helped.
export function recoveredText(remedies: Quantized["remedies"]): string {
  if (!remedies || remedies.length === 0) return "";
  const decibels = (value: number): string => `${value.toFixed(1)} dB`;
  const kept = [...new Set(remedies.filter(({ changes }) => changes > 0).map(({ remedy }) => remedy))];
  const from = remedies[0]!.before;
  const to = remedies.at(-1)!.after;
  return kept.length === 0
    ? `No remedy raised the SQNR on the calibration samples above ${decibels(from)}.`
    : `Recovery raised the SQNR on the calibration samples from ${decibels(from)} to ${decibels(to)} ` +
        `(${kept.join(", ")}).`;
}

// What leaving operators in float brought.
export function reachedText(reached: Quantized["reached"]): string {
  if (!reached) return "";
  const { unit, wanted, operators } = reached;
  const after = `${reached.after.toFixed(1)} ${unit}`;
  if (!reached.reached) return `No choice of operators in float reaches ${wanted} ${unit}; int8 has ${after}.`;
  const count = operators.length === 1 ? "one operator" : `${operators.length} operators`;
  return `${operators.length === 0 ? "Without any operator" : `With ${count}`} in float the outputs reach ${after}.`;
}

// How long a quantization took, and what training reached.
export function doneText({ losses, samples, seconds }: Quantized): string {
  const { calibrate, convert } = seconds;
  if (losses) {
    const [from, to] = [losses[0]!, losses.at(-1)!].map((loss) => loss.toFixed(3));
    const loss = losses.length > 1 ? `the loss went from ${from} to ${to}` : `the loss is ${to}`;
    return `Done: trained in ${formatSeconds(calibrate)}; ${loss}.`;
  }
  return samples > 0
    ? `Done: calibrated in ${formatSeconds(calibrate)}, converted in ${formatSeconds(convert)}.`
    : `Done: converted in ${formatSeconds(calibrate + convert)}; this recipe needs no calibration.`;
}
