/** What opens below a button: a panel of any kind, or a menu of actions. The browser's own popover keeps it on top. */

import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";

interface PopoverProps {
  /** The words of the button for those who do not see it. */
  label: string;
  /** What the button shows. */
  face: ComponentChildren;
  class?: string;
  panelClass?: string;
  disabled?: boolean;
  tabIndex?: number;
  role?: "menu" | "dialog";
  align?: "left" | "right";
  /** What it holds; made when it opens. */
  children: (close: () => void) => ComponentChildren;
}

const GAP = 4;
const EDGE = 8;

export function Popover(props: PopoverProps) {
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const panel = useRef<HTMLDivElement>(null);
  const [isOpen, setOpen] = useState(false);
  const close = () => panel.current?.hidePopover();

  useEffect(() => {
    if (!isOpen || !panel.current || !button.current) return;
    place(panel.current, button.current, props.align ?? "left");
    const first = panel.current.querySelector<HTMLElement>("[autofocus], [role^=menuitem], input, select, textarea, button, a");
    first?.focus();
    addEventListener("hashchange", close);
    return () => removeEventListener("hashchange", close);
  }, [isOpen]);

  return (
    <>
      <button
        ref={button}
        type="button"
        class={props.class ?? "button plain"}
        aria-label={props.label}
        title={props.label}
        aria-haspopup={props.role ?? "dialog"}
        aria-expanded={isOpen}
        aria-controls={isOpen ? id : undefined}
        disabled={props.disabled}
        tabIndex={props.tabIndex}
        onClick={() => (isOpen ? close() : panel.current?.showPopover())}
      >
        {props.face}
      </button>
      <div
        ref={panel}
        id={id}
        popover="auto"
        class={`popover ${props.panelClass ?? ""}`}
        role={isOpen ? (props.role ?? "dialog") : undefined}
        aria-label={isOpen ? props.label : undefined}
        onToggle={(event) => setOpen((event as unknown as ToggleEvent).newState === "open")}
        onKeyDown={(event) => {
          // What is pressed here is not for the page behind.
          event.stopPropagation();
          if (event.key !== "Escape") return;
          event.preventDefault();
          close();
          button.current?.focus();
        }}
      >
        {isOpen && props.children(close)}
      </div>
    </>
  );
}

/** Below the button where there is room, else above it, and never beyond the edge. */
function place(panel: HTMLElement, button: HTMLElement, align: "left" | "right"): void {
  const at = button.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = panel;
  const left = align === "right" ? at.right - width : at.left;
  const below = at.bottom + GAP;
  const top = below + height > innerHeight - EDGE ? at.top - GAP - height : below;
  panel.style.left = `${Math.max(EDGE, Math.min(left, innerWidth - width - EDGE))}px`;
  panel.style.top = `${Math.max(EDGE, Math.min(top, innerHeight - height - EDGE))}px`;
}

export interface MenuItem {
  name: string;
  act: () => void;
  /** A line below the name. */
  note?: string;
  /** Set: one of several that can be chosen, and whether it is. */
  isChosen?: boolean;
  isDanger?: boolean;
  disabled?: boolean;
  press?: string;
}

export type MenuEntry = MenuItem | { heading: string } | null;

export function Menu(props: Omit<PopoverProps, "children" | "role"> & { items: () => readonly MenuEntry[] }) {
  return (
    <Popover {...props} role="menu" panelClass={`menu ${props.panelClass ?? ""}`}>
      {(close) => <MenuItems items={props.items()} close={close} />}
    </Popover>
  );
}

export function MenuItems(props: { items: readonly MenuEntry[]; close: () => void }) {
  return (
    <div onKeyDown={moveThrough} role="presentation">
      {props.items.map((entry, at) => {
        if (!entry) return <hr key={at} />;
        if ("heading" in entry)
          return (
            <div key={at} class="menu-heading" role="presentation">
              {entry.heading}
            </div>
          );
        return <MenuRow key={at} item={entry} close={props.close} />;
      })}
    </div>
  );
}

function MenuRow(props: { item: MenuItem; close: () => void }) {
  const { item } = props;
  return (
    <button
      type="button"
      class={item.isDanger ? "menu-item danger" : "menu-item"}
      role={item.isChosen === undefined ? "menuitem" : "menuitemradio"}
      aria-checked={item.isChosen}
      disabled={item.disabled}
      onClick={() => {
        props.close();
        item.act();
      }}
    >
      <span class="grow">
        {item.name}
        {item.note && <span class="menu-note">{item.note}</span>}
      </span>
      {item.press && <kbd>{item.press}</kbd>}
    </button>
  );
}

function moveThrough(event: KeyboardEvent): void {
  const step = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 }[event.key];
  if (!step) return;
  const items = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLButtonElement>("button:not(:disabled)")];
  const at = items.indexOf(document.activeElement as HTMLButtonElement);
  items[(at + step + items.length) % items.length]?.focus();
  event.preventDefault();
  event.stopPropagation();
}
