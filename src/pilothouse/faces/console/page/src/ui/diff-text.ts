/** Reads a unified diff that came as text. */

import type { DiffView, Hunk } from "../api/types";

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/;

/** The files that a diff names, and the words before the first. */
export function parseDiff(text: string): { words: string; views: DiffView[] } {
  const lines = text.split("\n");
  const words: string[] = [];
  const views: DiffView[] = [];
  let hunk: Hunk | null = null;
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at]!;
    const next = lines[at + 1] ?? "";
    const found = HUNK.exec(line);
    // A removed line that begins with `-- ` looks like a head; only a head has the other behind it.
    if (line.startsWith("--- ") && next.startsWith("+++ ")) {
      views.push(fileOf(line, next));
      hunk = null;
      at++;
    } else if (!views.length) words.push(line);
    else if (found) {
      hunk = { old_start: Number(found[1]), new_start: Number(found[2]), lines: [] };
      views.at(-1)!.hunks!.push(hunk);
    } else if (/^(diff --git|index |new file|deleted file|similarity|rename )/.test(line) && !hunk) continue;
    else if (at < lines.length - 1 || line) hunk = take(views.at(-1)!, hunk, line);
  }
  return { words: words.join("\n").trim(), views };
}

function fileOf(before: string, after: string): DiffView {
  const name = (line: string) => line.slice(4).split("\t")[0]!.replace(/^[ab]\//, "");
  const isNew = before.slice(4) === "/dev/null";
  const path = after.slice(4) === "/dev/null" ? name(before) : name(after);
  return { view: "diff", path, hunks: [], added: 0, removed: 0, is_new: isNew };
}

/** Add a line to the hunk, or to one that is begun for what stands before the first. */
function take(view: DiffView, hunk: Hunk | null, line: string): Hunk {
  const into = hunk ?? { lines: [] };
  if (!hunk) view.hunks!.push(into);
  if (line.startsWith("+")) view.added = (view.added ?? 0) + 1;
  if (line.startsWith("-")) view.removed = (view.removed ?? 0) + 1;
  into.lines!.push(line);
  return into;
}
