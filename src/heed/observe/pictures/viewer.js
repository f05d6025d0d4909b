"use strict";
{
  document.documentElement.classList.add("scripted");
  const section = document.getElementById("viewer");
  const data = JSON.parse(section.querySelector(".data").textContent);
  const canvas = section.querySelector("canvas"), brush = canvas.getContext("2d");
  const image = section.querySelector("img"), choice = section.querySelector("select");
  const said = section.querySelector(".status"), button = section.querySelector(".class-token");
  const [rows, columns] = data.grid, [top, left, bottom, right] = data.area, extra = data.classToken;
  const height = (bottom - top) / rows, width = (right - left) / columns;
  const unpacked = new Map();
  const first = extra > 0 ? -1 : 0;
  let kept = first, shown = first;

  const weightsOf = name => {
    if (!unpacked.has(name)) {
      const [largest, packed] = data.weights[name];
      const levels = Uint8Array.from(atob(packed), letter => letter.charCodeAt(0));
      unpacked.set(name, [largest, levels]);
    }
    return unpacked.get(name);
  };

  const draw = patch => {
    shown = patch;
    const [largest, levels] = weightsOf(choice.value), row = patch < 0 ? 0 : patch + extra, count = rows * columns;
    brush.filter = "grayscale(1)";
    brush.globalAlpha = 1;
    brush.drawImage(image, 0, 0, canvas.width, canvas.height);
    brush.filter = "none";
    brush.globalAlpha = 0.56;
    let best = 0;
    for (let i = 0; i < count; i++) {
      const level = levels[row * count + i];
      if (level > levels[row * count + best]) best = i;
      brush.fillStyle = data.ramp[Math.round(level / 255 * (data.ramp.length - 1))];
      const x = Math.round(left + i % columns * width), y = Math.round(top + Math.floor(i / columns) * height);
      brush.fillRect(x, y, Math.round(left + (i % columns + 1) * width) - x,
        Math.round(top + (Math.floor(i / columns) + 1) * height) - y);
    }
    brush.globalAlpha = 1;
    if (patch >= 0) {
      brush.strokeStyle = "#ff3b6b";
      brush.lineWidth = 2;
      brush.strokeRect(left + patch % columns * width + 1, top + Math.floor(patch / columns) * height + 1,
        width - 2, height - 2);
    }
    const name = patch < 0 ? "class token" : `patch in row ${Math.floor(patch / columns)}, column ${patch % columns}`;
    said.textContent = `${choice.value}, ${name}: largest weight ${largest[row].toFixed(4)} at row ` +
      `${Math.floor(best / columns)}, column ${best % columns}; colours go from 0 to that weight.`;
  };

  const patchAt = event => {
    const frame = canvas.getBoundingClientRect();
    const x = (event.clientX - frame.left) * canvas.width / frame.width;
    const y = (event.clientY - frame.top) * canvas.height / frame.height;
    const row = Math.floor((y - top) / height), column = Math.floor((x - left) / width);
    return row < 0 || column < 0 || row >= rows || column >= columns ? null : row * columns + column;
  };

  canvas.addEventListener("pointermove", event => {
    const patch = patchAt(event);
    draw(patch === null ? kept : patch);
  });
  canvas.addEventListener("pointerleave", () => draw(kept));
  canvas.addEventListener("click", event => {
    const patch = patchAt(event);
    if (patch !== null) draw(kept = patch);
  });
  canvas.addEventListener("keydown", event => {
    const moves = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns};
    if (event.key === "Escape") draw(kept = first);
    if (!(event.key in moves)) return;
    event.preventDefault();
    const next = shown < 0 ? 0 : shown + moves[event.key];
    if (next >= 0 && next < rows * columns) draw(kept = next);
  });
  choice.addEventListener("change", () => draw(kept));
  button.hidden = extra === 0;
  button.addEventListener("click", () => draw(kept = -1));
  const start = () => draw(first);
  if (image.complete) start(); else image.addEventListener("load", start);
}
