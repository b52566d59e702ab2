// The page of any file: what it is, and its verification with progress.

import { getJson, postLines } from "./api.js";
import { button, el, facts, Latest, problem, section, size } from "./dom.js";

export function showFile(body, file) {
  const latest = new Latest();
  const about = section("About this file", el("p", { className: "quiet" }, "Reading …"));
  const result = el("div", { ariaLive: "polite" });
  const start = button("Verify", verify);
  const stop = button("Stop", () => latest.stop(), { disabled: true });
  body.append(about, section("Verification",
    el("p", { className: "quiet" }, "Reads the whole file, and compares checksums. Nothing is changed."),
    el("div", { className: "controls" }, start, stop), result));

  async function describe() {
    try {
      const info = await getJson(`${file.ordinal}/info`);
      about.replaceChildren(el("h3", {}, "About this file"), ...(info.error ? [problem(info.error)] : []), facts([
        ["Name", info.name],
        ["Type", info.kind_name],
        ["Content", info.content],
        ["Size", info.size === null ? "" : `${size(info.size)} (${info.size} bytes)`],
        // The size of a file behind a URL is not known.
        ["Decoded", info.nbytes === undefined ? ""
          : size(info.nbytes) + (info.size ? `, ratio ${(info.nbytes / info.size).toFixed(2)}` : "")],
        ["Chunks", info.nchunks],
        ["Checksum", info.header?.checksum],
        ["Trailer", info.trailer],
        ["Header", info.header],
        ["Metadata", info.metadata],
      ]));
      if (info.report) showReport(info.report);
    } catch (error) {
      about.append(problem(error));
    }
  }

  function showReport(report) {
    const damage = report.damage.slice(0, 500).map((each) => el("li", {}, each.what));
    result.replaceChildren(
      el("p", { className: report.ok ? "good" : "problem" },
        report.ok ? "The file is sound." : `${report.damage.length} faults`),
      facts([["Chunks", report.nchunks], ["Bytes", report.nbytes], ["Trailer", report.trailer],
        ["Notices", report.notices]]),
      el("ul", {}, ...damage));
  }

  function verify() {
    const bar = el("progress", { max: 100, ariaLabel: "Progress of the verification" });
    result.replaceChildren(bar);
    start.disabled = true;
    stop.disabled = false;
    const ended = () => {
      start.disabled = false;
      stop.disabled = true;
    };
    latest.run(async (signal) => {
      signal.addEventListener("abort", () => {
        result.replaceChildren(el("p", { className: "quiet" }, "Stopped."));
        ended();
      });
      for await (const line of postLines(`${file.ordinal}/verify`, signal)) {
        if (line.report) showReport(line.report);
        else if (line.error) result.replaceChildren(problem(line.error));
        else if (line.total > 0) bar.value = (100 * line.done) / line.total;
      }
      ended();
    }, (error) => {
      result.replaceChildren(problem(error));
      ended();
    });
  }

  describe();
  return () => latest.stop();
}
