"use strict";
(() => {
  const make = (name, properties) => Object.assign(document.createElement(name), properties);
  const all = (selector, within) => [...(within || document).querySelectorAll(selector)];

  // A file for the reader, from text that is in the page.
  const save = (name, type, text) => {
    const link = make("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const tool = (text, action) => {
    const button = make("button", { type: "button", className: "tool", textContent: text });
    button.addEventListener("click", action);
    return button;
  };

  // Light and dark.
  const root = document.documentElement;
  const tools = document.getElementById("tools");
  const isDark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const theme = tool("", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    label();
  });
  const label = () => { theme.textContent = isDark() ? "Light colours" : "Dark colours"; };
  label();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
  tools.append(theme);
  for (const data of all("script[type='application/json']")) {
    const name = data.dataset.file.split("/").pop().replace(/[^\w.-]+/g, "_").replace(/(\.json)?$/, ".json");
    tools.append(tool("JSON: " + name, () => save(name, "application/json", data.textContent)));
  }

  // Tables: heads that sort, and CSV.
  const order = new Intl.Collator("en", { numeric: true });
  const sort = (table, column, down) => {
    const body = table.tBodies[0];
    const key = (row) => {
      const cell = row.cells[column];
      const isNumber = cell.classList.contains("n");
      return { number: cell.dataset.v === undefined ? NaN : Number(cell.dataset.v), text: cell.textContent, isNumber };
    };
    const compare = (one, other) => {
      // A cell without a number comes last, both ways.
      if (one.isNumber && (isNaN(one.number) || isNaN(other.number))) {
        return isNaN(one.number) - isNaN(other.number);
      }
      const result = one.isNumber ? one.number - other.number : order.compare(one.text, other.text);
      return down ? -result : result;
    };
    const rows = [...body.rows].map((row) => [key(row), row]);
    rows.sort((one, other) => compare(one[0], other[0]));
    body.append(...rows.map((row) => row[1]));
  };
  const field = (text) => {
    // What a spreadsheet would take for a formula is marked as text.
    const safe = /^[=+@\t\r]|^-(?![\d.]|$)/.test(text) ? "'" + text : text;
    return /[",\n\r]/.test(safe) ? '"' + safe.replaceAll('"', '""') + '"' : safe;
  };
  for (const table of all("table")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const name = head.textContent;
      head.setAttribute("aria-sort", "none");
      const button = make("button", { type: "button", textContent: name });
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.setAttribute("aria-sort", "none"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        sort(table, column, down);
      });
      head.replaceChildren(button);
    });
    const caption = table.caption.textContent;
    const csv = tool("CSV", () => {
      const lines = [...table.rows].map((row) => [...row.cells].map((cell) => field(cell.textContent)).join(","));
      save(caption.replace(/[^\w.-]+/g, "_").slice(0, 60) + ".csv", "text/csv", lines.join("\r\n") + "\r\n");
    });
    csv.setAttribute("aria-label", "CSV of " + caption);
    table.closest(".table").append(csv);
  }

  // Pictures: the value at the pointer, and at a cursor that the arrow keys move.
  const tip = document.getElementById("tip");
  const hide = () => { tip.style.display = "none"; tip.textContent = ""; };
  const rows = (svg) => {
    // Rows of points: a series, or the boxes of one height's floor.
    const found = [];
    for (const marks of all("g.marks[data-tips]", svg)) {
      const texts = marks.dataset.tips.split("|");
      const places = marks.querySelector("path").getAttribute("d").slice(1).split("L").map((one) => one.split(",").map(Number));
      found.push(places.map(([x, y], at) => ({ x, y, text: marks.dataset.name + "\n" + (texts[at] || "") })));
    }
    const floors = new Map();
    for (const box of all("rect[data-tip]", svg)) {
      const [x, y, width, height] = ["x", "y", "width", "height"].map((name) => Number(box.getAttribute(name)));
      const floor = Math.round(y + height);
      if (!floors.has(floor)) floors.set(floor, []);
      floors.get(floor).push({ x: x + width / 2, y: y + height / 2, left: x, right: x + width, top: y, text: box.dataset.tip });
    }
    return found.concat([...floors.values()]).filter((row) => row.length > 0);
  };
  for (const plot of all(".plot")) {
    const title = plot.querySelector("title").textContent;
    const known = new Map();
    const current = () => all("svg", plot).find((svg) => svg.getBoundingClientRect().width > 0);
    const of = (svg) => {
      if (!known.has(svg)) known.set(svg, rows(svg));
      return known.get(svg);
    };
    let row = 0, at = -1;
    const clear = () => { all(".cursor", plot).forEach((one) => one.remove()); hide(); };
    const show = (svg, point) => {
      clear();
      const cursor = document.createElementNS("http://www.w3.org/2000/svg", "circle");
      for (const [name, value] of [["class", "cursor"], ["cx", point.x], ["cy", point.y], ["r", 6]]) cursor.setAttribute(name, value);
      svg.append(cursor);
      tip.textContent = point.text;
      tip.style.display = "block";
      const box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width;
      const x = box.left + point.x * scale, y = box.top + point.y * scale;
      const width = tip.offsetWidth, height = tip.offsetHeight;
      tip.style.left = Math.max(4, Math.min(innerWidth - width - 4, x - width / 2)) + "px";
      tip.style.top = (y - height - 14 < 4 ? y + 14 : y - height - 14) + "px";
    };
    plot.tabIndex = 0;
    plot.setAttribute("role", "group");
    plot.setAttribute("aria-label", title + ": the arrow keys move along the values");
    plot.addEventListener("pointermove", (event) => {
      const svg = current();
      if (!svg) return;
      const box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width;
      const x = (event.clientX - box.left) / scale, y = (event.clientY - box.top) / scale;
      let best = null, least = 40;
      for (const points of of(svg)) for (const point of points) {
        const inside = point.left !== undefined && x >= point.left && x <= point.right;
        const distance = Math.hypot(inside ? 0 : point.x - x, point.y - y);
        if (distance < least) [best, least] = [point, distance];
      }
      if (best) show(svg, best); else clear();
    });
    plot.addEventListener("pointerleave", clear);
    plot.addEventListener("blur", clear);
    plot.addEventListener("keydown", (event) => {
      const svg = current(), lines = svg ? of(svg) : [];
      if (lines.length === 0) return;
      const steps = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0], Home: [0, -1e9], End: [0, 1e9] };
      if (event.key === "Escape") return clear();
      const step = steps[event.key];
      if (!step) return;
      event.preventDefault();
      row = (row + step[0] + lines.length) % lines.length;
      at = Math.max(0, Math.min(lines[row].length - 1, at + step[1]));
      show(svg, lines[row][at]);
    });
  }
})();
