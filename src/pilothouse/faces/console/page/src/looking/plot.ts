/** Bars by day, drawn by uPlot; loaded when a chart is first looked at. */

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface Plotted {
  days: readonly string[];
  /** One list, or two whose bars stand beside each other. */
  values: readonly (readonly number[])[];
  dayLabel: (day: string) => string;
  valueLabel: (value: number) => string;
  /** The day under the pointer, or null. */
  onPoint: (at: number | null) => void;
}

export interface PlotColours {
  bars: readonly string[];
  text: string;
  line: string;
}

const HEIGHT = 168;
const FONT = "12px system-ui, sans-serif";
/** A label of a day needs so much room. */
const LABEL_PX = 64;

/** Draw into an element; the plot lets itself be resized and destroyed. */
export function drawBars(into: HTMLElement, given: Plotted, colours: PlotColours): uPlot {
  const axis = { stroke: colours.text, font: FONT, grid: { stroke: colours.line, width: 1 }, ticks: { show: false } };
  const isOne = given.values.length === 1;
  const bars = (at: number) =>
    isOne
      ? uPlot.paths.bars!({ size: [0.72, 48], radius: 0.12 })
      : uPlot.paths.bars!({ size: [0.44, 24], radius: 0.12, align: at ? 1 : -1 });
  return new uPlot(
    {
      width: Math.max(into.clientWidth, 120),
      height: HEIGHT,
      padding: [12, 26, 0, 0],
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, y: false, points: { show: false } },
      scales: {
        x: { time: false, range: [-0.6, Math.max(given.days.length - 0.4, 0.6)] },
        y: { range: (_plot, _low, high) => [0, high > 0 ? high * 1.05 : 1] },
      },
      axes: [
        {
          ...axis,
          size: 30,
          grid: { show: false },
          splits: (plot) => dayTicks(given.days.length, plot.bbox.width),
          values: (_plot, at) => at.map((index) => given.dayLabel(given.days[index] ?? "")),
        },
        { ...axis, size: 60, space: 36, values: (_plot, at) => at.map((value) => given.valueLabel(value)) },
      ],
      series: [{}, ...colours.bars.map((fill, at) => ({ fill, paths: bars(at), points: { show: false } }))],
      hooks: { setCursor: [(plot) => given.onPoint(plot.cursor.left! >= 0 ? (plot.cursor.idx ?? null) : null)] },
    },
    [given.days.map((_day, at) => at), ...given.values.map((each) => [...each])],
    into,
  );
}

/** Which days have a label: the last one always, and as many before it as there is room for. */
function dayTicks(count: number, width: number): number[] {
  const room = Math.max(1, Math.floor(width / devicePixelRatio / LABEL_PX));
  const step = Math.max(1, Math.ceil(count / room));
  const ticks: number[] = [];
  for (let at = count - 1; at >= 0; at -= step) ticks.unshift(at);
  return ticks;
}
