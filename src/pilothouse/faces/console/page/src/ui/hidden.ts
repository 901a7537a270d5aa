/** Characters that nobody sees, or that make others stand where they do not: the same as the server's. */

const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}\ud800-\udfff]/gu;

/** The text with each of them as an escape. */
export function escapeHidden(text: string): string {
  return text.replace(HIDDEN, escapeOf);
}

/** `\u202e`, and `\U000e0041` beyond what four digits have; TOML reads them too. */
function escapeOf(sign: string): string {
  const code = sign.codePointAt(0)!;
  return code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
}
