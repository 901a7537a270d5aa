/** The frame that the views for looking share: headings, panels, and what stands in for a value that is not there. */

import type { ComponentChildren } from "preact";
import { errorWords } from "../ui/error-words";
import type { Loading } from "../ui/load";

export function Page(props: { title: string; tools?: ComponentChildren; children: ComponentChildren }) {
  return (
    <div class="look">
      <div class="look-head">
        <h1>{props.title}</h1>
        {props.tools && <div class="row wrap">{props.tools}</div>}
      </div>
      {props.children}
    </div>
  );
}

/** A part of a view under a heading of its own. */
export function Panel(props: { title: string; tools?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section class="card look-panel" aria-label={props.title}>
      <div class="look-panel-head">
        <h2>{props.title}</h2>
        {props.tools}
      </div>
      {props.children}
    </section>
  );
}

/** Why there is nothing to see, or that it is on its way; nothing once there is. */
export function Pending(props: { of: Loading }) {
  const { value, error, isLoading, again } = props.of;
  if (error)
    return (
      <div class="look-trouble" role="alert">
        <span class="grow">{errorWords(error)}</span>
        <button class="button" disabled={isLoading} onClick={again}>
          Try again
        </button>
      </div>
    );
  return value === null ? <p class="faint">Loading…</p> : null;
}

/** One number with its name. */
export function Figure(props: { name: string; value: ComponentChildren; children?: ComponentChildren }) {
  return (
    <div class="card look-figure">
      <span class="small quiet">{props.name}</span>
      <span class="look-figure-value">{props.value}</span>
      {props.children && <span class="small quiet">{props.children}</span>}
    </div>
  );
}
