// Ways to open a file on the static page: a URL, a file of this computer, or one that is dropped.

import { button, el, labelled, problem } from "../dom.js";

// `add` takes a list of URLs and File objects; `problems` are texts to show at once.
export function chooser(problems, add) {
  const errors = el("div", {}, ...problems.map((text) => problem(text)));
  const tryAdd = (entries) => {
    errors.replaceChildren();
    try {
      if (entries.length) add(entries);
    } catch (error) {
      errors.append(problem(error));
    }
  };
  const open = () => tryAdd(url.value ? [url.value] : []);
  const onkeydown = (event) => event.key === "Enter" && open();
  const url = el("input", { type: "url", placeholder: "https://host/file.blp", onkeydown });
  const file = el("input", { type: "file", multiple: true, onchange: () => tryAdd([...file.files]) });
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault();
    tryAdd([...event.dataTransfer.files]);
  });
  const urlControl = labelled("URL", url);
  urlControl.append(button("Open", open));
  urlControl.classList.add("wide");
  document.querySelector("header").append(
    el("div", { className: "controls chooser" }, urlControl, labelled("or choose or drop a file", file)), errors);
}
