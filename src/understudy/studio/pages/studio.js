// The studio's own few lines: fields that follow the kind of a column, a live plan, and news of a run.
"use strict";

// Fields of a column follow its kind.
for (const column of document.querySelectorAll("[data-column]")) {
  const kind = column.querySelector("[data-kind]");
  const follow = () => {
    for (const fields of column.querySelectorAll("[data-for]")) {
      const own = fields.dataset.for === kind.value;
      fields.hidden = !own;
      fields.disabled = !own;
    }
  };
  kind.addEventListener("change", follow);
  follow();
}

// Parts of a form that belong to one choice.
const parts = document.querySelectorAll("[data-when]");
const showParts = () => {
  for (const part of parts) part.hidden = !document.getElementById(part.dataset.when).checked;
};
for (const radio of document.querySelectorAll("input[type=radio]")) radio.addEventListener("change", showParts);
showParts();

// A folder opens in place, a file is chosen.
const listing = document.querySelector("[data-browse]");
if (listing) {
  const path = document.getElementById("path");
  const entry = (one) => {
    const item = document.createElement("li");
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet";
    button.dataset.path = one.path;
    button.dataset.folder = one.folder ? "yes" : "no";
    button.textContent = one.name + (one.folder ? "/" : "");
    item.append(button);
    return item;
  };
  listing.addEventListener("click", async (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    path.value = button.dataset.path;
    if (button.dataset.folder !== "yes") return;
    const answer = await fetch("/browse?path=" + encodeURIComponent(button.dataset.path));
    if (!answer.ok) return;
    const found = await answer.json();
    const up = button.dataset.path.split("/").slice(0, -1).join("/");
    listing.replaceChildren(entry({ name: "..", path: up, folder: true }), ...found.entries.map(entry));
  });
}

// The plan follows the numbers.
const budget = document.getElementById("budget-form");
if (budget) {
  const place = document.getElementById("plan");
  const epsilon = document.getElementById("epsilon");
  const slide = document.getElementById("epsilon-slide");
  let waiting = 0;
  let latest = 0;
  const ask = async () => {
    const mine = ++latest;
    const numbers = new URLSearchParams();
    for (const name of ["epsilon", "delta", "total", "rows", "recipe"]) numbers.set(name, budget.elements[name].value);
    place.setAttribute("aria-busy", "true");
    const answer = await fetch(budget.dataset.plan + "?" + numbers);
    const text = await answer.text();
    if (mine !== latest) return;
    place.innerHTML = text;
    place.removeAttribute("aria-busy");
  };
  const soon = () => {
    document.getElementById("epsilon-shown").textContent = epsilon.value;
    clearTimeout(waiting);
    waiting = setTimeout(ask, 350);
  };
  slide.value = Math.log10(Number(epsilon.value) || 1);
  slide.addEventListener("input", () => {
    epsilon.value = Number((10 ** Number(slide.value)).toPrecision(2));
    soon();
  });
  budget.addEventListener("input", (event) => {
    if (event.target !== slide) soon();
  });
  ask();
}

// News of a job; the page is loaded again when it ends.
const job = document.getElementById("job");
if (job && job.dataset.state === "running") {
  const news = new EventSource(job.dataset.news);
  news.addEventListener("message", (event) => {
    const found = JSON.parse(event.data);
    if (found.state !== "running") {
      news.close();
      location.reload();
      return;
    }
    document.getElementById("share").value = found.share;
    document.getElementById("note").textContent = found.note;
  });
}
