// The page as a workbench: its first screen, verdicts, tabs and address, results side by side, and what can be reached.
const { readFileSync } = require("node:fs");
const path = require("node:path");
const {
  buffer,
  clothing,
  downloaded,
  inBrowser,
  npy,
  openPage,
  openTab,
  qdq,
  qdqIn,
  quantize,
  root,
  scratch,
  shapes,
  takeExample,
  takeShapes,
  text,
} = require("./page.js");

const onnx = require("./onnx.js");

const tested = inBrowser();

const isInSight = (page, selector) =>
  page.locator(selector).evaluate((element) => {
    const { top, bottom } = element.getBoundingClientRect();
    return top >= 0 && bottom <= innerHeight;
  });

// What axe finds; its source runs as a script of the tests, which the page's policy does not bind.
const axe = readFileSync(path.join(root, "node_modules/axe-core/axe.min.js"), "utf8");
async function findings(page) {
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(axe);
  return page.evaluate(async () => {
    const rules = { "target-size": { enabled: true } };
    const { violations } = await globalThis.axe.run(document, { rules, resultTypes: ["violations"] });
    return violations.flatMap(({ id, nodes }) => nodes.map(({ target }) => `${id}: ${target.join(" ")}`));
  });
}

test("the first screen shows what will come: three steps, the example, and what it gives", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url, {
    viewport: { width: 1280, height: 800 },
  });
  expect(await page.locator("#welcome li").count()).toBe(3);
  for (const place of ["#example", "#preview .verdict", "#model .drop"])
    expect([place, await isInSight(page, place)]).toEqual([place, true]);
  const promised = {
    verdict: await page.locator("#preview .verdict > *").allTextContents(),
    cards: await page.locator("#preview .cards > div").allTextContents(),
    layers: await page.locator("#preview .bars > div").allTextContents(),
  };
  await takeExample(page);
  expect(await isInSight(page, "#start")).toBe(true);
  await quantize(page);
  expect(promised.verdict.length).toBe(2);
  const verdict = await text(page, "#result .verdict");
  for (const part of promised.verdict) expect(verdict).toContain(part);
  const cards = await page.locator("#result .cards > div").allTextContents();
  expect(cards.slice(0, promised.cards.length)).toEqual(promised.cards);
  const rows = await page.getByLabel("errors by layer").locator("tbody tr").all();
  for (const [i, line] of promised.layers.entries()) {
    const [, name, decibels] = /^(.*?)(\d\d\.\d dB)$/.exec(line);
    expect(await rows[i].textContent()).toContain(name);
    expect(await rows[i].textContent()).toContain(decibels);
  }
  // The result is in sight without scrolling, and has the focus.
  for (const place of ["#verdict", "#start", "#save-model"]) expect(await isInSight(page, place)).toBe(true);
  expect(await page.evaluate(() => document.activeElement.id)).toBe("verdict");
  expect(problems).toEqual([]);
});

test("the verdict says what is broken and which data says nothing", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  const levelOf = () => page.getAttribute("#result .verdict", "data-level");
  await page.setInputFiles("#model-file", path.join(clothing, "model.pt2"));
  await page.waitForSelector("#layers-view tbody tr");
  // Samples that are all zero.
  await page.setInputFiles("#calibration-files", buffer("zero.npy", npy([4, 1, 28, 28], new Array(4 * 784).fill(0))));
  await page.waitForSelector("#start:not([disabled])");
  await quantize(page);
  expect(await levelOf()).not.toBe("good");
  expect(await text(page, "#result .warnings")).toMatch(/zero/);
  expect(await text(page, "#verdict")).toBe("Check the data first: these figures say little");
  // Calibrated on next to nothing, measured on noise: the ranges are far too small.
  let seed = 7;
  const noise = () => (seed = (seed * 16807) % 2147483647) / 1073741823.5 - 1;
  const tiny = Array.from({ length: 4 * 784 }, () => noise() * 1e-4);
  const loud = Array.from({ length: 64 * 784 }, () => 2 * noise());
  await page.setInputFiles("#calibration-files", buffer("tiny.npy", npy([4, 1, 28, 28], tiny)));
  await page.waitForFunction(() => document.querySelector("#calibration-summary").textContent.includes("4 samples"));
  await page.setInputFiles("#test-files", buffer("loud.npy", npy([64, 1, 28, 28], loud)));
  await page.waitForSelector("#test-summary:not(:empty)");
  await quantize(page);
  expect([await levelOf(), await text(page, "#verdict"), await text(page, "#sqnr")]).toEqual([
    "broken",
    "Broken: the int8 model does not answer as the float model does",
    expect.any(String),
  ]);
  // The next step is a click away, once.
  await page.click("#recover-now");
  await page.waitForSelector("#remedies");
  await page.waitForFunction(() => document.querySelector("#progress-text").textContent.startsWith("Done"));
  expect(await page.isChecked("#recover")).toBe(true);
  expect(await page.locator("#recover-now").count()).toBe(0);
  expect(problems).toEqual([]);
});

test("the verdict tells close calls from errors, and blames no layer for the noise of many", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  let seed = 11;
  const noise = () => (seed = (seed * 16807) % 2147483647) / 1073741823.5 - 1;
  // Three scores that differ by a thousandth.
  const weights = Array.from({ length: 8 }, noise).flatMap((w) => [w, w + noise() / 1e3, w + noise() / 1e3]);
  const file = onnx.model(
    "close",
    onnx.node("MatMul", ["x", "w"], "y"),
    onnx.constant("w", [8, 3], Float32Array.from(weights)),
    onnx.value(11, "x", [8]),
    onnx.value(12, "y", [3]),
  );
  await page.setInputFiles("#model-file", buffer("close.onnx", file));
  await page.waitForSelector("#layers-view tbody tr");
  const samples = Array.from({ length: 64 * 8 }, noise);
  await page.setInputFiles("#calibration-files", buffer("x.npy", npy([64, 8], samples)));
  await page.waitForSelector("#start:not([disabled])");
  await quantize(page);
  expect(parseFloat(await text(page, "#agreement"))).toBeLessThan(90);
  // No line ends between a number and its unit.
  for (const place of ["#sqnr", "#agreement", "#speed", "#result .verdict p"])
    expect([place, await page.locator(`${place} .unbroken`).count()]).not.toEqual([place, 0]);
  expect(parseFloat(await text(page, "#sqnr"))).toBeGreaterThan(30);
  expect(await text(page, "#verdict")).toBe("Close calls: the float model hardly prefers one answer");
  expect(await text(page, "#result .verdict")).toMatch(/Yet its outputs differ by only \d\.\d % \(\d\d\.\d dB\)/);

  // Ten products that keep what the samples are and make all noise beside it larger.
  const kept = Array.from({ length: 8 }, (_, i) => (i === 0 ? 0.75 : -0.25));
  const product = Float32Array.from({ length: 64 }, (_, at) => {
    const [row, column] = [Math.floor(at / 8), at % 8];
    return (row === column ? 1.3 : 0) - 0.3 * kept[row] * kept[column];
  });
  const layers = Array.from({ length: 10 }, (_, i) => i);
  const deep = onnx.model(
    "deep",
    ...layers.map((i) => onnx.node("MatMul", [`t${i}`, `w${i}`], `t${i + 1}`)),
    onnx.node("Unsqueeze", ["t10", "one"], "y"),
    ...layers.map((i) => onnx.constant(`w${i}`, [8, 8], product)),
    onnx.constant("one", [1], new BigInt64Array([1n])),
    onnx.value(11, "t0", [8]),
    onnx.value(12, "y", [1, 8]),
  );
  await page.setInputFiles("#model-file", buffer("deep.onnx", deep));
  await page.waitForSelector("#calibration-summary:empty", { state: "attached" });
  const along = Array.from({ length: 64 }, noise).flatMap((size) => kept.map((each) => size * each));
  await page.setInputFiles("#calibration-files", buffer("x.npy", npy([64, 8], along)));
  await page.waitForSelector("#start:not([disabled])");
  await quantize(page);
  expect(await text(page, "#verdict")).toBe("Look closer: int8 loses some accuracy");
  expect(await text(page, "#result .verdict")).toMatch(
    /linear_\d+ adds the most noise \(\d\d\.\d dB\), but the noise of many layers adds up/,
  );
  expect(problems).toEqual([]);
});

test("a model that is quantized already says so where the next step is", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  const file = path.join(scratch, "int8.pt2");
  qdq("quantize", "model.pt2", "--weights-only", "-o", file);
  await page.setInputFiles("#model-file", file);
  await page.waitForFunction(() => /quantized already/.test(document.querySelector("#explained").textContent));
  expect(await text(page, "#progress-text")).toMatch(/^This model cannot be quantized by this recipe/);
  expect(await page.isDisabled("#start")).toBe(true);
  // There is nothing to list.
  expect(await text(page, "#explained")).toMatch(/^The program is quantized already/);
  expect(await page.isVisible("#layers-view")).toBe(true);
  expect(await page.isVisible("#layers-view .scroll")).toBe(false);
  await page.setInputFiles("#model-file", path.join(clothing, "model.pt2"));
  await page.waitForSelector("#layers-view .scroll tbody tr");
  expect(problems).toEqual([]);
});

test("a file that cannot be opened is not complained of once another is being opened", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  await page.setInputFiles(
    "#model-file",
    buffer("cut.pt2", readFileSync(path.join(clothing, "model.pt2")).subarray(9)),
  );
  await page.setInputFiles("#model-file", path.join(clothing, "model.pt2"));
  await page.waitForSelector("#layers-view tbody tr");
  expect(await page.isVisible("#model .problem")).toBe(false);
  expect(problems).toEqual([]);
});

test("an image that cannot be read leaves no broken picture behind its message", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  await page.setInputFiles("#model-file", path.join(clothing, "model.pt2"));
  await page.waitForSelector("#layers-view tbody tr");
  await page.setInputFiles("#calibration-files", buffer("photo.png", "this is no picture"));
  await page.waitForSelector("#data .problem:not([hidden])");
  expect(await text(page, "#data .problem")).toMatch(/^photo.png is not a JPEG, PNG or BMP image/);
  await page.waitForFunction(() => getComputedStyle(document.querySelector(".thumbnail img")).visibility === "hidden");
  expect(await page.isVisible(".preview canvas")).toBe(false);
  expect(problems).toEqual([]);
});

test("a model of which nothing becomes int8 says so, and that its file grows", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  const unknown = onnx.model(
    "unknown",
    onnx.node("FancyConv", ["x"], "y"),
    onnx.value(11, "x", [8]),
    onnx.value(12, "y", [8]),
  );
  await page.setInputFiles("#model-file", buffer("unknown.onnx", unknown));
  await page.waitForFunction(() => document.querySelector("#progress-text").textContent.includes("makes no operator"));
  expect(await text(page, "#progress-text")).toBe(
    "This recipe makes no operator of this model int8; the view Layers says why.",
  );
  // The warning is announced, and its list is one.
  expect(await text(page, "#recipe-warnings [role=alert]")).toBe(
    "The quantizer asks for no tensor of this program, so that everything stays float; the view Layers tells why.",
  );
  expect(await findings(page)).toEqual([]);
  await quantize(page);
  expect(await page.locator("#result .cards > div").first().textContent()).toMatch(/\d B → \d+ B1\.\d\d times larger$/);
  expect(problems).toEqual([]);
});

test("the address carries tab, search and recipe; back, forward and undo go through them", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  await takeExample(page);
  const tab = () => page.getAttribute("[role=tab][aria-selected=true]", "data-tab");
  await openTab(page, "graph");
  await openTab(page, "compare");
  await page.goBack();
  expect(await tab()).toBe("graph");
  expect(await page.isVisible("#graph")).toBe(true);
  await page.goBack();
  expect(await tab()).toBe("layers");
  await page.goForward();
  await page.goForward();
  expect(await tab()).toBe("compare");

  await openTab(page, "layers");
  const setting = () => page.getByLabel("setting of head.0").first();
  // The table is drawn anew when the worker has explained the recipe.
  const isChosen = (label) =>
    setting()
      .locator("option:checked")
      .filter({ hasText: new RegExp(`^${label}$`) })
      .waitFor({ state: "attached" });
  await setting().selectOption("float");
  await page.waitForSelector("td.outcome.float");
  await setting().selectOption("int8 per tensor");
  await isChosen("int8 per tensor");
  await page.click("#undo");
  await isChosen("float");
  await page.keyboard.press("Control+z");
  await isChosen("by the recipe");
  expect(await page.isDisabled("#undo")).toBe(true);
  await page.click("#redo");
  await isChosen("float");
  await page.goBack();
  await isChosen("by the recipe");
  await page.goForward();
  await isChosen("float");
  await page.fill("#layer-filter", "head");
  await page.waitForFunction(() => document.querySelectorAll("#layers-view tbody tr").length < 8);

  // The address alone leads there, in another tab too.
  const other = await openPage(tested.browser, page.url());
  await other.page.waitForSelector("#start:not([disabled])");
  expect(await other.page.inputValue("#layer-filter")).toBe("head");
  expect(await other.page.getByLabel("setting of head.0").first().locator("option:checked").textContent()).toBe(
    "float",
  );
  expect(await other.page.locator("#layers-view tbody tr").count()).toBeLessThan(8);
  expect([...problems, ...other.problems]).toEqual([]);
});

test("results stand side by side: named, shown, compared, deleted; a reload asks first", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  const asked = [];
  page.on("dialog", (dialog) => {
    asked.push(dialog.type());
    void dialog.dismiss();
  });
  await takeShapes(page);
  await quantize(page);
  await page.click("#leave-float");
  await quantize(page);
  await page.selectOption("#quantizer", "X86InductorQuantizer");
  await page.waitForFunction(() => document.querySelector("#undo").disabled === false);
  await quantize(page);
  const names = ["all on int8", "one in float", "x86"];
  for (const [i, name] of names.entries()) {
    await page.getByLabel(`name of result ${i + 1}`).fill(name);
    await page.getByLabel(`name of result ${i + 1}`).press("Enter");
  }
  const rows = page.getByLabel("results").locator("tbody tr");
  expect(await rows.count()).toBe(3);
  expect(await rows.nth(1).textContent()).toContain("1 in float");

  await openTab(page, "compare");
  const compared = () => page.locator("#compare select option:checked").allTextContents();
  expect(await compared()).toEqual(["one in float", "x86"]); // the newest beside the one before it
  await page.selectOption("#compare-a", "all on int8");
  await page.selectOption("#compare-b", "one in float");
  expect(await page.getByLabel("figures").locator("th").allTextContents()).toEqual(["Figure", ...names.slice(0, 2)]);
  expect(await page.locator("#compare .added").allTextContents()).toEqual([
    expect.stringContaining('"global"'),
    expect.stringContaining('"module_name"'),
    expect.stringContaining('["separable2.0",null]'),
    expect.stringContaining("]"),
  ]);
  expect(await page.getByLabel("layers whose error changed").locator("tbody tr").count()).toBeGreaterThan(5);

  await openTab(page, "pareto");
  // Three results and the float model.
  expect(await page.locator(".dot").allTextContents()).toEqual(
    [...names, "the float model"].map((name) => expect.stringContaining(name)),
  );
  await page.locator(".dot", { hasText: "all on int8" }).first().press("Enter");
  expect(await page.locator("tr.chosen input").inputValue()).toBe("all on int8");
  expect(await text(page, "#layers")).toBe("21 of 21");

  // An earlier result can still be saved, as .onnx too.
  const model = await downloaded(page, "#save-model");
  const wanted = path.join(scratch, "first.int8.pt2");
  const how = ["--calibrate", "calibration", "--preprocess", "preprocess.json", "--recipe", "recipe.json"];
  qdqIn(shapes, "quantize", "model.pt2", ...how, "-o", wanted);
  expect(model.bytes.equals(readFileSync(wanted))).toBe(true);
  const onnx = await downloaded(page, "#save-onnx");
  const converted = path.join(scratch, "first.int8.onnx");
  qdq("convert", wanted, converted);
  expect([onnx.name, onnx.bytes.equals(readFileSync(converted))]).toEqual(["model.int8.onnx", true]);

  await page.getByLabel("Delete: x86").click();
  expect(await rows.count()).toBe(2);
  await page.evaluate(() => setTimeout(() => location.reload()));
  await page.waitForTimeout(500);
  expect(asked).toEqual(["beforeunload"]);
  expect(await rows.count()).toBe(2);
  expect(problems).toEqual([]);
});

test("a file that cannot be opened is refused in sight, on a phone too", async () => {
  const { page } = await openPage(tested.browser, tested.server.url, { viewport: { width: 360, height: 640 } });
  await page.setInputFiles("#model-file", buffer("broken.onnx", Buffer.from("no model at all")));
  await page.waitForSelector("#model .problem:not([hidden])");
  expect(await text(page, "#model .problem:not([hidden])")).toContain("broken.onnx could not be opened: ");
  expect(await isInSight(page, "#model .problem:not([hidden])")).toBe(true);
});

test("tells a model's outputs a line each, by the names that its file has, and what a search finds", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  const file = onnx.model(
    "two",
    onnx.node("Relu", ["x"], "scores"),
    onnx.node("Neg", ["x"], "boxes"),
    onnx.value(11, "x", [8]),
    onnx.value(12, "scores", [8]),
    onnx.value(12, "boxes", [8]),
  );
  await page.setInputFiles("#model-file", buffer("two.onnx", file));
  await page.waitForSelector("#model-operators");
  const outputs = page.locator("#model dd b").last();
  expect((await outputs.innerText()).split("\n")).toEqual(["scores float32[s0, 8]", "boxes float32[s0, 8]"]);
  const found = (words) =>
    page.fill("#layer-filter", words).then(() => page.locator("#layers-view [role=status]").textContent());
  expect(await found("neg")).toBe("1 of 2");
  expect(await found("conv")).toBe("No operator, module or kind has this in its name.");
  expect(problems).toEqual([]);
});

test("takes an ONNX model, gives .onnx by default, and quantizes for a runtime", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  const model = path.join(scratch, "clothing.onnx");
  qdq("convert", "model.pt2", model);
  await page.setInputFiles("#model-file", model);
  await page.waitForSelector("#layers-view tbody tr");
  await page.setInputFiles("#calibration-files-folder", path.join(clothing, "calibration"));
  await page.waitForSelector("#start:not([disabled])");
  await page.setInputFiles("#calibration-files", path.join(clothing, "preprocess.json"));
  await page.waitForFunction(() => document.querySelector("#preprocess").value.includes("0.286"));
  const out = path.join(scratch, "clothing.int8.onnx");
  const how = ["--calibrate", "calibration", "--preprocess", "preprocess.json"];
  for (const target of ["", "ort-web"]) {
    await page.selectOption("#target", target);
    if (target) await page.waitForFunction(() => !document.querySelector("#undo").disabled);
    await quantize(page);
    qdq("quantize", model, ...how, ...(target ? ["--for", target] : []), "-o", out);
    expect(await page.locator("#save-onnx.primary").count()).toBe(1);
    const saved = await downloaded(page, "#save-onnx");
    expect([target, saved.name, saved.bytes.equals(readFileSync(out))]).toEqual([target, "clothing.int8.onnx", true]);
    // The table of results has the size of that file, too.
    const size = /→ (.*)$/.exec(await text(page, "#size"))[1];
    expect(await page.locator("tr.chosen").first().textContent()).toContain(size);
  }
  expect(await text(page, "#runtime")).toMatch(/^ONNX Runtime Web.* would run \d+ of \d+ convolutions/);
  expect(problems).toEqual([]);
});

test("leaves as few operators in float as a score needs, and shows what each trial brought", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  await takeShapes(page);
  await page.fill("#wanted", "98");
  await quantize(page);
  expect(await text(page, "#gained")).toMatch(/^With \S+ operators? in float the outputs reach (9[89]|100)\.\d %\./);
  await openTab(page, "pareto");
  expect(await page.locator("#trials tbody tr").count()).toBeGreaterThan(2);
  expect(await text(page, "#trials")).toContain("In float now: ");
  expect(problems).toEqual([]);
});

test.each([
  [1280, "light"],
  [1280, "dark"],
  [320, "dark"],
])("axe finds nothing in any state at %i pixels, %s, and nothing scrolls sideways", async (width, colorScheme) => {
  const found = [];
  const { page, problems } = await openPage(tested.browser, tested.server.url, {
    viewport: { width, height: 800 },
    colorScheme,
  });
  const look = async (state) => {
    for (const finding of await findings(page)) found.push(`${state}: ${finding}`);
    const wide = await page.evaluate(() => document.scrollingElement.scrollWidth - innerWidth);
    if (wide > 0) found.push(`${state} scrolls sideways by ${wide}`);
  };
  await look("empty");
  await takeExample(page);
  await page.evaluate(() => {
    for (const details of document.querySelectorAll("details")) details.open = true;
  });
  await look("opened");
  await quantize(page);
  for (const tab of ["result", "layers", "graph", "observers", "predictions", "compare", "pareto"]) {
    await openTab(page, tab);
    await look(tab);
  }
  // Arrays have no pictures to preview.
  const samples = npy([2, 1, 28, 28], new Float32Array(2 * 784));
  await page.setInputFiles("#calibration-files", buffer("zeros.npy", samples));
  await page.waitForFunction(() => document.querySelector("#calibration-summary").textContent.includes("2 samples"));
  await look("arrays");
  expect(found).toEqual([]);
  expect(problems).toEqual([]);
});

test("is installable, and works without a network once it was there", async () => {
  const { page } = await openPage(tested.browser, tested.server.url);
  const manifest = await page.evaluate(async () => {
    const link = document.querySelector("link[rel=manifest]").href;
    return { ...(await (await fetch(link)).json()), icons: undefined, link };
  });
  expect(manifest).toMatchObject({
    display: "standalone",
    start_url: "./",
    link: `${tested.server.url}manifest.webmanifest`,
  });
  await page.evaluate(() => navigator.serviceWorker.ready);
  await takeExample(page);
  const isKept = () =>
    page.evaluate(async () => {
      const [name] = await caches.keys();
      return (await (await caches.open(name)).keys()).some(({ url }) => url.endsWith(".wasm"));
    });
  while (!(await isKept())) await page.waitForTimeout(100);
  // The example is kept when the worker of the service has fetched it.
  await page.goto(tested.server.url);
  await takeExample(page);
  await page.context().setOffline(true);
  const alone = await page.context().newPage();
  await alone.goto(tested.server.url);
  await takeExample(alone);
  await quantize(alone);
  expect(await text(alone, "#layers")).toBe("21 of 21");
  await page.context().close();
});
