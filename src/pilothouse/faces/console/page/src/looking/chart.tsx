/** A chart of bars by day, which can be read as a table as well. */

import { useEffect, useRef, useState } from "preact/hooks";
import { theme } from "../ui/theme";
import { toastError } from "../ui/toasts";
import { dayName, shortDay } from "./days";
import type { PlotColours } from "./plot";
import { Panel } from "./page";

/** The bars of one colour; two of them stand beside each other. */
export interface Series {
  /** What a value is, for the head of the table and the legend. */
  name: string;
  values: readonly number[];
  colour?: "accent" | "busy" | "ask";
}

export interface ChartProps {
  title: string;
  days: readonly string[];
  series: readonly Series[];
  label: (value: number) => string;
  /** Where labels on the axis are others than those of values. */
  axisLabel?: (value: number) => string;
  note?: string;
}

export function DayChart(props: ChartProps) {
  const [asTable, showTable] = useState(false);
  const [pointed, point] = useState<number | null>(null);
  const day = pointed === null ? undefined : props.days[pointed];
  const toggle = (
    <button class="button plain small" aria-pressed={asTable} onClick={() => showTable(!asTable)}>
      {asTable ? "Show as chart" : "Show as table"}
      <span class="unseen"> of {props.title}</span>
    </button>
  );
  return (
    <Panel title={props.title} tools={toggle}>
      <p class="look-legend small quiet" aria-hidden={day ? true : undefined}>
        {day && <span>{dayName(day)}:</span>}
        {props.series.map((each) => (
          <Told key={each.name} series={each} at={pointed} isOne={props.series.length === 1} label={props.label} />
        ))}
      </p>
      {asTable ? <DayTable {...props} /> : <Bars {...props} point={point} />}
      {props.note && <p class="small faint">{props.note}</p>}
    </Panel>
  );
}

/** The value of the day that is pointed at, or the sum of all. */
function Told(props: { series: Series; at: number | null; isOne: boolean; label: (value: number) => string }) {
  const { name, values, colour } = props.series;
  const value = props.at === null ? values.reduce((sum, each) => sum + each, 0) : (values[props.at] ?? 0);
  const words = props.label(value);
  if (props.isOne) return <span>{props.at === null ? `${words} in all` : words}</span>;
  return (
    <span class="look-legend-key">
      <i class={`look-bar-${colour ?? "accent"}`} /> {name} <b>{words}</b>
    </span>
  );
}

function DayTable(props: ChartProps) {
  const filled = props.days.flatMap((day, at) => {
    const values = props.series.map((each) => each.values[at] ?? 0);
    return values.some((value) => value > 0) ? [[day, values] as const] : [];
  });
  if (!filled.length) return <p class="faint">Nothing in this time.</p>;
  return (
    <div class="look-table-scroll" tabIndex={0} role="group" aria-label={props.title}>
      <table class="look-table">
        <thead>
          <tr>
            <th scope="col">Day</th>
            {props.series.map(({ name }) => (
              <th key={name} scope="col" class="look-number">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {filled.reverse().map(([day, values]) => (
            <tr key={day}>
              <th scope="row">{dayName(day)}</th>
              {values.map((value, at) => (
                <td key={at} class="look-number">
                  {props.label(value)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Bars(props: ChartProps & { point: (at: number | null) => void }) {
  const own = useRef<HTMLDivElement>(null);
  const scheme = useScheme();
  const key = [props.days.join(), ...props.series.map((each) => each.values.join())].join("|");
  useEffect(() => {
    const into = own.current!;
    let isGone = false;
    let clean = () => {};
    import("./plot")
      .then(({ drawBars }) => {
        if (isGone) return;
        const label = props.axisLabel ?? props.label;
        const values = props.series.map((each) => each.values);
        const given = { days: props.days, values, dayLabel: shortDay, valueLabel: label, onPoint: props.point };
        const plot = drawBars(into, given, coloursOf(into));
        const fit = () => plot.setSize({ width: Math.max(into.clientWidth, 120), height: plot.height });
        const watcher = new ResizeObserver(fit);
        watcher.observe(into);
        clean = () => {
          watcher.disconnect();
          plot.destroy();
        };
      })
      .catch(toastError);
    return () => {
      isGone = true;
      clean();
      props.point(null);
    };
  }, [key, scheme]);
  const most = Math.max(...props.series.flatMap((each) => each.values), 0);
  const words = `${props.title}: ${props.days.length} days, at most ${props.label(most)} a day`;
  return (
    <div class="look-plot" role="img" aria-label={words} ref={own}>
      {props.series.map(({ name, colour }) => (
        <i key={name} class={`look-plot-bar look-bar-${colour ?? "accent"}`} />
      ))}
      <i class="look-plot-text" />
      <i class="look-plot-line" />
    </div>
  );
}

/** A canvas knows no variables: elements that have the colours say what they are now. */
function coloursOf(plot: HTMLElement): PlotColours {
  const colour = (name: string) => getComputedStyle(plot.querySelector(name)!).color;
  const bars = [...plot.querySelectorAll(".look-plot-bar")].map((each) => getComputedStyle(each).color);
  return { bars, text: colour(".look-plot-text"), line: colour(".look-plot-line") };
}

/** Changes whenever colours do. */
function useScheme(): string {
  const [isDark, setDark] = useState(() => matchMedia("(prefers-color-scheme: dark)").matches);
  useEffect(() => {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const heard = () => setDark(dark.matches);
    dark.addEventListener("change", heard);
    return () => dark.removeEventListener("change", heard);
  }, []);
  return `${theme.value} ${isDark}`;
}
