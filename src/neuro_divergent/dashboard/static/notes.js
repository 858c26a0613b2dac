// Tags and a note of a run, in a dialog.

import { ask, h, problem } from "./tools.js";

export function editNotes(run, done) {
  const tags = h("input", { id: "tags", value: (run.tags || []).join(", "), autocomplete: "off" });
  const note = h("textarea", { id: "note" }, run.note || "");
  const wrong = h("div");
  const dialog = h("dialog", { "aria-label": `Tags and note of ${run.name}` }, h("form", { method: "dialog", onsubmit: save }, h("h2", {}, run.name),
    h("p", {}, h("label", { for: "tags" }, "Tags, with commas between them"), tags), h("p", {}, h("label", { for: "note" }, "Note"), note), wrong,
    h("div", { class: "bar" }, h("button", { type: "submit", class: "main" }, "Save"), h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"))));

  async function save(event) {
    event.preventDefault();
    try {
      await ask(`/api/runs/${run.id}/notes`, { body: { tags: tags.value.split(","), note: note.value } });
      dialog.close();
      await done();
    } catch (error) {
      wrong.replaceChildren(problem(error));
    }
  }

  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
