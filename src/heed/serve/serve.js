// The live page: asks the server, and puts the parts of exported pages where look.js serves them.
"use strict";
(() => {
  const $ = (selector) => document.querySelector(selector);
  let token = location.hash.slice(1);
  const shown = $("#shown"), state = $("#state");
  const made = (name, attributes = {}, ...children) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) if (value !== null && value !== undefined) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  let runs = [], run = null, asked = null, running = null, edits = [], past = [];

  // The server ----------------------------------------------------------------------------------------------------

  const wait = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));

  const request = async (path, body, signal) => {
    for (let tries = 0; ; tries++) {
      const headers = { Authorization: `Bearer ${token}`, ...(body ? { "Content-Type": "application/json" } : {}) };
      const response = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal });
      if (response.ok) return response;
      if (response.status === 503 && tries < 5) { say("the server is busy; asking again ..."); await wait(Number(response.headers.get("Retry-After")) || 1); continue; }
      const said = await response.json().catch(() => ({}));
      $("#unlock").hidden = response.status !== 401;
      throw new Error(said.error || `the server answered ${response.status}`);
    }
  };

  // The values of lines of JSON as they come.
  const lines = async function* (path, body, signal) {
    const reader = (await request(path, body, signal)).body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ;) {
      const { value, done } = await reader.read();
      if (done) return;
      const whole = (rest + value).split("\n");
      rest = whole.pop();
      yield* whole.map((line) => JSON.parse(line));
    }
  };

  const say = (text, failed = false) => {
    state.textContent = text;
    state.classList.toggle("failed", failed);
  };
  const failed = (error) => { if (error.name !== "AbortError") say(error.message, true); };

  // The forms -----------------------------------------------------------------------------------------------------

  const TEXTS = { text: ["Text"], pair: ["First text", "Second text"], either: ["Text", "Second text, to ask whether it follows"], turns: ["Turns, one a line; the last is yours"],
    row: ["A number for each column, as JSON"], columns: ["The last numbers of each column, as JSON"] };
  const RANGES = { temperature: [0.1, 2], top_p: [0.05, 1] };

  const field = ({ name, type, help, default: usual, least, most, choices, several }, kind) => {
    const about = { name, title: help, "data-type": several ? "several" : type };
    let input;
    if (type === "bool") input = made("input", { type: "checkbox", ...about });
    else if (choices) input = made("select", about, made("option", { value: "" }, ""), ...choices.map((one) => made("option", {}, one)));
    else if (RANGES[name]) {
      const [min, max] = RANGES[name], output = made("output", {}, String(usual ?? max));
      input = made("input", { type: "range", min, max, step: 0.05, value: usual ?? max, "data-usual": usual ?? max, ...about });
      input.addEventListener("input", () => { output.textContent = input.value; });
      return made("label", { title: help }, name.replaceAll("_", " "), input, output);
    } else input = made("input", { type: { int: "number", float: "number" }[type] || "text", min: least, max: most, step: type === "float" ? "any" : null, placeholder: usual, ...about });
    return made("label", { title: help }, ...(type === "bool" ? [input, name.replaceAll("_", " ")] : [name.replaceAll("_", " "), input]));
  };

  const valueOf = (input) => {
    const { type } = input.dataset;
    if (type === "bool") return input.checked || null;
    if (input.value === "" || input.value === input.dataset.usual) return null;
    if (type === "several") return [input.value];
    return type === "int" || type === "float" ? Number(input.value) : input.value;
  };
  const given = (kind) => Object.fromEntries([...$(`[data-for="${kind}"]`).querySelectorAll("[name]")]
    .map((input) => [input.name, valueOf(input)]).filter(([, value]) => value !== null));

  const choose = (number) => {
    stop();
    run = runs[number];
    edits = past = [];
    asked = null;
    shown.replaceChildren();
    for (const id of ["#answer", "#edits", "#save"]) $(id).hidden = true;
    $("#curves").open = false;
    fill();
    say(run.error ? run.error : "");
    $("#inputs").querySelector("textarea, input").focus({ preventScroll: true });
  };

  // Pretraining reads a text with masks, or a pair of texts.
  const readsBoth = () => ((run.options || {}).predict || []).some(({ name }) => name === "next");

  const tell = () => { $("#about").textContent = [run.summary, run.note].filter(Boolean).join(" "); };

  const fill = () => {
    document.title = `heed: ${run.name}`;
    $("h1").textContent = run.title || run.name;
    tell();
    const kind = run.input || "text", inputs = $("#inputs");
    inputs.replaceChildren();
    if (kind === "picture") {
      const file = made("input", { type: "file", accept: "image/*" }), image = made("img", { alt: "", hidden: "" });
      file.addEventListener("change", () => {
        const reader = new FileReader();
        reader.addEventListener("load", () => { image.src = reader.result; image.hidden = false; });
        if (file.files[0]) reader.readAsDataURL(file.files[0]);
      });
      inputs.append(made("label", {}, "Picture (at most 8 MB) ", file), image);
    } else {
      for (const label of TEXTS[readsBoth() ? "either" : kind]) {
        const area = made("textarea", { rows: kind === "text" || kind === "pair" ? 2 : 4, maxlength: 2000, dir: "auto" });
        area.addEventListener("keydown", (event) => {
          if (event.key === "Enter" && !event.shiftKey && kind !== "turns" && !event.isComposing) { event.preventDefault(); ask(); }
        });
        if (kind === "row" || kind === "columns") area.value = JSON.stringify(Object.fromEntries(run.columns.map((one) => [one, kind === "row" ? 0 : [0, 0, 0]])));
        inputs.append(made("label", {}, label, area));
      }
    }
    for (const group of document.querySelectorAll("#options fieldset")) {
      const command = group.dataset.for, looks = command === "look" && (run.can || []).includes("look");
      const fields = [...(looks ? run.view : []), ...(command === "look" && !looks ? [] : (run.options || {})[command] || [])];
      group.replaceChildren(group.firstElementChild, ...fields.map((one) => field(one, command)));
      group.append(made("p", { class: "hint" }));
      group.hidden = !fields.length;
    }
    $("#go").textContent = (run.can || []).includes("look") ? "Look" : "Predict";
  };

  // A run that still trains may have new weights, or its first.
  const refresh = async () => {
    const number = runs.indexOf(run), typed = [...$("#inputs").querySelectorAll("textarea")].map((one) => one.value), { error } = run;
    ({ runs } = await (await request("/v1/runs")).json());
    run = runs[number];
    if (run.error) throw new Error(run.error);
    if (!error) return tell();
    fill();
    $("#inputs").querySelectorAll("textarea").forEach((one, k) => { one.value = typed[k] ?? ""; });
  };

  // The input as /v1/predict takes it.
  const input = () => {
    const kind = run.input || "text", areas = [...$("#inputs").querySelectorAll("textarea")].map((area) => area.value);
    if (kind === "picture") {
      const { src } = $("#inputs img");
      if (!src) throw new Error("choose a picture first");
      return src.slice(src.indexOf(",") + 1);
    }
    if (kind === "row" || kind === "columns") return JSON.parse(areas[0]);
    if (kind === "turns") return areas[0].split("\n").filter((line) => line.trim());
    return kind === "pair" || (readsBoth() && areas[1].trim()) ? { text: areas[0], second: areas[1] } : areas[0];
  };

  // Asking --------------------------------------------------------------------------------------------------------

  const stop = () => {
    if (running) running.abort();
    running = null;
    $("#stop").hidden = true;
  };

  const ask = async (again = false) => {
    stop();
    const signal = (running = new AbortController()).signal;
    $("#stop").hidden = false;
    try {
      say("asking ...");
      if (run.error || run.training) await refresh();
      const what = input(), asks = given("predict");
      if (readsBoth() && what.second) asks.next = true;
      const output = again ? null : await answer(what, asks, signal);
      if ((run.can || []).includes("look")) {
        say("looking ...");
        if (!again) asked = lookAt(what, output);
        asked = { ...asked, edits };
        await look(signal);
      }
      say("");
    } catch (error) { failed(error); } finally { if (running && running.signal === signal) stop(); }
  };

  // A look at what was just written: a sampled output is given to the look, which would write another one.
  const lookAt = (what, output) => {
    const options = given("look"), view = {}, written = given("predict");
    for (const { name } of run.view) if (name in options) { view[name] = /^-?\d+$/.test(options[name]) ? Number(options[name]) : options[name]; delete options[name]; }
    const has = (name) => run.options.look.some((one) => one.name === name);
    if (output !== null && written.sample && has("target")) options.target ??= output;
    else if (output !== null && written.sample && has("given")) { what += output; options.given = true; }
    else if (has("length") && written.length && !options.given) options.length ??= Math.min(1000, written.length);
    if (has("beam") && written.beam) options.beam ??= written.beam;
    return { run: runs.indexOf(run), input: what, ...view, options, edits };
  };

  // Show the output; returns it where it is a text that was written.
  const answer = async (what, options, signal) => {
    const box = $("#answer div"), body = { run: runs.indexOf(run), input: what, options };
    if (run.streams && !options.nbest && !(options.beam > 1) && !options.score && !options.choice) {
      const text = made("p", { class: "written", dir: "auto" });
      box.replaceChildren(text);
      $("#answer").hidden = false;
      for await (const { piece, error } of lines("/api/write", body, signal)) {
        if (error) throw new Error(error);
        text.textContent += piece;
      }
      const written = text.textContent;
      if (!written.trim()) text.replaceChildren(made("span", { class: "hint" }, "The output has no words."));
      return written;
    }
    const { output } = await (await request("/v1/predict", body, signal)).json();
    box.replaceChildren(...described(output));
    $("#answer").hidden = false;
    return Array.isArray(output) || !output.tokens ? null : output.response ?? output.text;
  };

  const meter = (share) => {
    const bar = made("i");
    bar.style.width = `${100 * Math.min(1, Math.max(0, share))}%`;
    return made("span", { class: "meter" }, bar);
  };

  const LEVELS = 20;

  // A prediction: what was written, its tokens shaded by their probability, and all other values.
  const described = (value) => {
    if (value === null || typeof value !== "object" || Array.isArray(value)) return [...values(value)];
    if (typeof value.value === "number") return [made("p", { class: "written" }, String(value.value))];  // in its own unit, no share
    const { text, response, tokens, token_probs: shares, source, ...others } = value, written = text ?? response;
    const isWritten = typeof written === "string" && (source !== undefined || response !== undefined || tokens);
    if (!isWritten) return [...values(value)];
    const shaded = (tokens || []).map((token, k) => made("span", { class: `w${Math.round(shares[k] * LEVELS)}`, title: `probability ${shares[k]}` },
      made("bdi", {}, token.replaceAll(" ", "\u2423").replaceAll("\n", "\u21b5"))));
    return [made("p", { class: "written", dir: "auto" }, written),
      ...(shares ? [made("p", { class: "keys word", title: "each token, the darker the more probable" }, ...shaded.flatMap((one) => [one, " "]))] : []),
      ...values(others)];
  };

  const short = (value) => String(typeof value === "number" ? Number(value.toPrecision(4)) : value);

  // Values of JSON as lists of names and values; shares have bars.
  const values = (value) => {
    if (value === null || typeof value !== "object") {
      const text = short(value);
      const isShare = typeof value === "number" && value >= 0 && value <= 1 && !Number.isInteger(value);
      return isShare ? [meter(value), made("span", { class: "value" }, text)] : [made("span", { dir: "auto" }, text)];
    }
    if (Array.isArray(value) && value.every((one) => one === null || typeof one !== "object")) return [made("span", { dir: "auto" }, value.map(short).join(", "))];
    const rows = Object.entries(value).slice(0, 50).map(([key, one]) =>
      made("div", {}, made("dt", { dir: "auto" }, Array.isArray(value) ? String(Number(key) + 1) : key), made("dd", {}, ...(Array.isArray(value) ? described(one) : values(one)))));
    return [made("dl", { class: "rows" }, ...rows)];
  };

  // The parts of an exported page.
  const parts = (html) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    page.querySelector("h1")?.remove();
    for (const note of page.querySelectorAll(".notes li")) {  // options of the command are fields here
      if (note.textContent.includes("; change with --")) note.textContent = `${note.textContent.replaceAll("--", "")} (Options)`;
    }
    return [...page.querySelector("header").children, ...page.querySelector("main").children];
  };

  const look = async (signal) => {
    const html = await (await request("/api/save", { look: asked, format: "html" }, signal)).text();
    shown.replaceChildren(...parts(html));
    shown.dispatchEvent(new CustomEvent("heed:shown", { bubbles: true }));
    $("#save").hidden = false;
  };

  // One weight, and edits -----------------------------------------------------------------------------------------

  shown.addEventListener("heed:pin", async ({ target, detail: { map, row, column } }) => {
    if (row === null || column === null || asked === null) return;
    shown.querySelectorAll(".cell").forEach((old) => old.remove());
    const panel = $("#cell").content.firstElementChild.cloneNode(true), find = (selector) => panel.querySelector(selector);
    try {
      const { head, weight, html, numpy, edit } = await (await request("/api/number", { look: asked, map, row, column })).json();
      find("h3").textContent = head;
      const slider = find("input"), output = find("output"), show = () => { output.textContent = Number(slider.value).toFixed(2); };
      slider.value = weight;
      output.textContent = weight.toFixed(3);
      slider.addEventListener("input", () => {
        show();
        if (edit !== null) preview({ ...edit, weight: Number(slider.value) });
      });
      find(".set").addEventListener("click", () => change([...edits, { ...edit, weight: Number(slider.value) }]));
      if (edit === null) { find(".set").hidden = find("label").hidden = true; find(".hint").textContent = "No edit can name this cell."; }
      find(".copy").addEventListener("click", async () => {
        await navigator.clipboard.writeText(numpy);
        find(".hint").textContent = "copied";
      });
      find("details div").append(...parts(html));
      (target.querySelector(".panel .status") || target.firstElementChild).after(panel);
    } catch (error) { failed(error); }
  });

  // While a slider moves: the numbers of the maps and the output with its edit, in place. One look at a time is asked for.
  let latest = null, isDrawing = false;
  const preview = async (edit) => {
    latest = edit;
    if (isDrawing) return;
    isDrawing = true;
    try {
      while (latest) {
        const next = latest;
        latest = null;
        const look = { ...asked, edits: [...edits, next] };
        const html = await (await request("/api/save", { look, format: "html" })).text();
        const page = new DOMParser().parseFromString(html, "text/html"), title = (map) => map.querySelector("h2").textContent;
        const rows = (map) => [...(map?.querySelector("[role=grid] tbody")?.rows || [])];
        const maps = new Map([...page.querySelectorAll("section.map")].map((map) => [title(map), rows(map)]));
        for (const map of shown.querySelectorAll("section.map")) {
          const now = maps.get(title(map)) || [];
          if (now.length === rows(map).length) rows(map).forEach((row, i) => [...row.cells].forEach((cell, j) => {
            cell.className = now[i].cells[j].className;
            cell.textContent = now[i].cells[j].textContent;
          }));
        }
        shown.querySelector(".texts")?.replaceWith(page.querySelector(".texts"));
      }
    } catch (error) { failed(error); } finally { isDrawing = false; }
  };

  const change = (next) => {
    past = [...past, edits];
    edits = next;
    listEdits();
    ask(true);
  };

  const listEdits = () => {
    $("#answer h2").textContent = edits.length ? "Output, without the edits" : "Output";
    $("#edits").hidden = !edits.length && !past.length;
    $("#edits ol").replaceChildren(...edits.map((one) => made("li", {}, made("code", {}, JSON.stringify(one)))));
    $("#undo").disabled = !past.length;
    $("#clear").disabled = $("#keep-edits").disabled = !edits.length;
  };
  $("#undo").addEventListener("click", () => {
    edits = past.at(-1);
    past = past.slice(0, -1);
    listEdits();
    ask(true);
  });
  $("#clear").addEventListener("click", () => change([]));

  const download = (blob, name) => {
    const link = made("a", { href: URL.createObjectURL(blob), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  $("#keep-edits").addEventListener("click", () => download(new Blob([JSON.stringify(edits, null, 1)], { type: "application/json" }), "edits.json"));
  $("#save").addEventListener("click", async ({ target: { value } }) => {
    if (!value) return;
    try {
      download(await (await request("/api/save", { look: asked, format: value })).blob(), `look.${value}`);
    } catch (error) { failed(error); }
  });

  // Curves --------------------------------------------------------------------------------------------------------

  $("#curves").addEventListener("toggle", async () => {
    const box = $("#curves div"), of = run;
    try {
      while ($("#curves").open && run === of) {
        box.replaceChildren(...parts(await (await request("/api/curves", { run: runs.indexOf(run) })).text()));
        if (!run.training) return;
        await wait(5);
      }
    } catch (error) { box.replaceChildren(made("p", { class: "hint" }, error.message)); }
  });

  // Begin ---------------------------------------------------------------------------------------------------------

  $("#options").addEventListener("focusin", ({ target }) => {
    if (target.name) target.closest("fieldset").lastElementChild.textContent = target.title;
  });
  $("#ask").addEventListener("submit", (event) => { event.preventDefault(); ask(); });
  $("#stop").addEventListener("click", () => { stop(); say("stopped"); });
  $("#menu select").addEventListener("change", (event) => choose(Number(event.target.value)));
  $("#unlock").addEventListener("submit", (event) => {
    event.preventDefault();
    token = $("#unlock input").value.trim();
    begin();
  });
  const begin = async () => {
    try {
      ({ runs } = await (await request("/v1/runs")).json());
      $("#unlock").hidden = true;
      say("");
      $("#menu select").replaceChildren(...runs.map(({ name, run }) => made("option", { value: run }, name)));
      $("#menu").hidden = runs.length < 2;
      choose(0);
    } catch (error) { failed(error); }
  };
  begin();
})();
