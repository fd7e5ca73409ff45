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

// What nobody knows publicly is found out inside the budget.
for (const button of document.querySelectorAll("[data-discover]")) {
  button.addEventListener("click", () => {
    document.getElementById(button.dataset.discover).value = "discover";
  });
}

// Parts of a form that belong to one choice.
const parts = document.querySelectorAll("[data-when]");
const showParts = () => {
  for (const part of parts) part.hidden = !document.getElementById(part.dataset.when).checked;
};
for (const radio of document.querySelectorAll("input[type=radio]")) radio.addEventListener("change", showParts);
showParts();

// A form that is refused keeps what was typed: the reason appears in it.
for (const form of document.querySelectorAll("form[data-stays]")) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const buttons = form.querySelectorAll("button[type=submit]");
    for (const button of buttons) button.disabled = true;
    const sent = { method: "POST", body: new URLSearchParams(new FormData(form)) };
    const answer = await fetch(form.getAttribute("action"), sent).catch(() => null);
    if (answer && answer.ok) {
      location.assign(answer.url);
      if (answer.url === location.href) location.reload();
      return;
    }
    const page = answer && new DOMParser().parseFromString(await answer.text(), "text/html");
    const reason = page && page.querySelector("[role=alert]");
    let place = form.querySelector(".refused");
    if (!place) {
      place = document.createElement("p");
      place.className = "verdict FAIL refused";
      place.tabIndex = -1;
      place.setAttribute("role", "alert");
      form.append(place);
    }
    place.textContent = reason ? reason.textContent : "The studio does not answer: is it still running?";
    place.focus();
    for (const button of buttons) button.disabled = false;
  });
}

// A folder opens in place, a file is chosen.
const listing = document.querySelector("[data-browse]");
if (listing) {
  const path = document.getElementById("path");
  const name = document.getElementById("name");
  const suggestName = (chosen) => {
    const last = chosen.split("/").pop().replace(/\.[a-z0-9.]+$/i, "").toLowerCase();
    if (!name.value) name.value = last.replace(/[^a-z0-9]+/g, "-").slice(0, 40).replace(/^-+|-+$/g, "");
  };
  path.addEventListener("change", () => suggestName(path.value));
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
    suggestName(button.dataset.path);
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
  const time = document.getElementById("time");
  const epsilon = document.getElementById("epsilon");
  const slide = document.getElementById("epsilon-slide");
  let waiting = 0;
  let latest = 0;
  const ask = async () => {
    const mine = ++latest;
    const numbers = new URLSearchParams();
    for (const name of ["epsilon", "delta", "total", "account", "rows", "recipe", "steps"]) numbers.set(name, budget.elements[name].value);
    place.setAttribute("aria-busy", "true");
    const answer = await fetch(budget.dataset.plan + "?" + numbers);
    const text = await answer.text();
    if (mine !== latest) return;
    place.innerHTML = text;
    place.removeAttribute("aria-busy");
    time.textContent = "Time to train on this machine: being tried on made-up records.";
    const tried = await fetch(budget.dataset.time + "?" + numbers);
    const words = await tried.text();
    if (mine === latest) time.textContent = tried.ok ? words : "";
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
