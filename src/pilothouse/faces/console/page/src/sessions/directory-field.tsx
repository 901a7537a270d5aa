/** A directory with completion: those used lately first, then what is on the disk. */

import { useEffect, useRef, useState } from "preact/hooks";
import { completeDirectories } from "../state/rows";
import { toastError } from "../ui/toasts";
import { recentDirectories } from "./starting";

interface DirectoryProps {
  id: string;
  label: string;
  value: string;
  onChange: (value: string) => void;
  isLabelUnseen?: boolean;
  wrong?: string | undefined;
  /** The runner it is on; the server can look at its own disk only. */
  machine?: string;
}

const AFTER_MS = 120;
const MOST = 12;

export function DirectoryField(props: DirectoryProps) {
  const { id, value } = props;
  const [isOpen, setOpen] = useState(false);
  const [at, setAt] = useState(-1);
  const field = useRef<HTMLInputElement>(null);
  const found = useDirectories(value, isOpen, props.machine ?? "");
  const shown = isOpen ? found : [];
  const take = (path: string) => {
    props.onChange(path);
    setAt(-1);
    setOpen(false);
    field.current?.focus();
  };
  const keyDown = (event: KeyboardEvent) => {
    const choice = shown[at];
    if (event.key === "ArrowDown" && shown.length) setAt((at + 1) % shown.length);
    else if (event.key === "ArrowUp" && shown.length) setAt((at - 1 + shown.length) % shown.length);
    else if (event.key === "Enter" && choice && !event.ctrlKey) take(choice);
    else if (event.key === "Tab" && choice) return take(choice);
    else if (event.key === "Escape" && shown.length) setOpen(false);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="stacked directory">
      <label class={props.isLabelUnseen ? "unseen" : "field-label"} for={id}>
        {props.label}
      </label>
      <input
        ref={field}
        id={id}
        class="field mono"
        role="combobox"
        autocomplete="off"
        spellcheck={false}
        placeholder="/home/you/project"
        aria-expanded={shown.length > 0}
        aria-controls={`${id}-list`}
        aria-activedescendant={shown[at] ? `${id}-${at}` : undefined}
        aria-invalid={!!props.wrong}
        aria-describedby={props.wrong ? `${id}-wrong` : undefined}
        value={value}
        onFocus={() => setOpen(true)}
        onBlur={() => setOpen(false)}
        onInput={(event) => {
          props.onChange(event.currentTarget.value);
          setOpen(true);
          setAt(-1);
        }}
        onKeyDown={keyDown}
      />
      {shown.length > 0 && (
        <ul id={`${id}-list`} class="suggestions below" role="listbox" aria-label="Directories">
          {shown.map((path, index) => (
            <li
              key={path}
              id={`${id}-${index}`}
              role="option"
              aria-selected={index === at}
              onMouseDown={(event) => event.preventDefault()}
              onClick={() => take(path)}
            >
              <span class="mono">{path}</span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

/** What fits: all recent ones before anything is typed. */
function useDirectories(typed: string, isOpen: boolean, machine: string): string[] {
  const [onDisk, setOnDisk] = useState<string[]>([]);
  useEffect(() => {
    if (!isOpen || machine || !/^~?\//.test(typed)) return setOnDisk([]);
    const abort = new AbortController();
    const timer = setTimeout(() => {
      completeDirectories(typed, abort.signal)
        .then((found) => abort.signal.aborted || setOnDisk(found.map((each) => whole(typed, each))))
        .catch(toastError);
    }, AFTER_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [typed, isOpen, machine]);
  if (!isOpen) return [];
  const recent = recentDirectories(machine).filter((path) => path !== typed && path.toLowerCase().includes(typed.toLowerCase()));
  return [...new Set([...recent, ...onDisk])].filter((path) => path !== typed).slice(0, MOST);
}

/** The server gives names, or paths. */
function whole(typed: string, name: string): string {
  return name.startsWith("/") ? name : typed.slice(0, typed.lastIndexOf("/") + 1) + name;
}
