// The built page in a real browser: from drop to download, what goes wrong on the way, and what it must never do.
const { copyFileSync, mkdirSync, readFileSync, readdirSync, truncateSync, writeFileSync } = require("node:fs");
const path = require("node:path");
const {
  downloaded,
  inBrowser,
  listen,
  npxQdq,
  npy,
  openPage,
  openTab,
  plainServer,
  qdq,
  quantize,
  scratch,
  shapes,
  takeExample,
} = require("./page.js");

const tested = inBrowser();

const preprocess = ["--preprocess", "preprocess.json"];
const images = (folder, count) =>
  readdirSync(path.join(shapes, folder))
    .filter((name) => name.endsWith(".png"))
    .slice(0, count)
    .map((name) => path.join(shapes, folder, name));
const text = (page, selector) => page.textContent(selector);
// Whether the middle of an element lies in the window.
async function expectInSight(page, selector) {
  const { y, height } = await page.locator(selector).boundingBox();
  expect(y + height / 2).toBeGreaterThan(0);
  expect(y + height / 2).toBeLessThan(page.viewportSize().height);
}
// What the command line makes of the example.
const example = (file) => [
  "quantize",
  "model.pt2",
  "--calibrate",
  "calibration",
  ...preprocess,
  "--recipe",
  "recipe.json",
  "-o",
  file,
];
const quantizeExample = (file, ...more) => qdq(...example(file), ...more);

test("quantizes the example to the bytes of the command line, and shows its numbers", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  await takeExample(page);
  expect(await text(page, "#calibration-summary")).toBe("Calibration: 128 samples in 8 batches, with labels.");
  await quantize(page);

  const file = path.join(scratch, "cli.int8.pt2");
  quantizeExample(file);
  const model = await downloaded(page, "#save-model");
  expect(model.name).toBe("model.int8.pt2");
  expect(model.bytes.equals(readFileSync(file))).toBe(true);

  const [float, int8] = JSON.parse(
    qdq(
      "evaluate",
      "model.pt2",
      file,
      "--data",
      "test",
      "--labels",
      "test/labels.csv",
      ...preprocess,
      "--json",
      "--backend",
      "simd",
    ),
  );
  expect(await text(page, "#top1")).toBe(`${float.top1.toFixed(2)} % → ${int8.top1.toFixed(2)} %`);
  expect(await text(page, "#agreement")).toBe(`${int8.agreement.toFixed(2)} %`);
  expect(await text(page, "#size")).toBe(`${(float.bytes / 1e6).toFixed(2)} MB → ${(int8.bytes / 1e3).toFixed(1)} kB`);
  expect(await text(page, "#layers")).toBe("21 of 21");
  expect(await page.locator("#predictions figure").count()).toBe(24);
  expect(await page.locator("#histograms svg").count()).toBeGreaterThan(20);
  // The picture of README.md: QDQ_PICTURE=docs/page.png ./dev test page
  if (process.env.QDQ_PICTURE) {
    await page.setViewportSize({ width: 1240, height: 760 });
    await page.screenshot({ path: process.env.QDQ_PICTURE });
  }

  // What is saved is good for the command line: recipe and statistics give the same model without data.
  const statistics = (await downloaded(page, "#save-observers")).bytes;
  const recipe = (await downloaded(page, "#save-recipe")).bytes;
  quantizeExample(file, "--observers", path.join(scratch, "observers.json"));
  expect(JSON.parse(statistics)).toEqual(JSON.parse(readFileSync(path.join(scratch, "observers.json"))));
  expect(JSON.parse(recipe)).toEqual(JSON.parse(readFileSync(path.join(shapes, "recipe.json"))));
  const saved = {
    statistics: path.join(scratch, "saved.observers.json"),
    recipe: path.join(scratch, "saved.recipe.json"),
  };
  writeFileSync(saved.statistics, statistics);
  writeFileSync(saved.recipe, recipe);
  qdq("quantize", "model.pt2", "--calibrate", saved.statistics, "--recipe", saved.recipe, "-o", file);
  expect(model.bytes.equals(readFileSync(file))).toBe(true);
  expect(problems).toEqual([]);
});

test("recovers accuracy to the bytes of the command line, and says what it brought", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  await takeExample(page);
  await page.getByLabel("Recover accuracy").check();
  await quantize(page);
  expect(await text(page, "#progress-text")).toMatch(
    /Recovery raised the signal-to-noise ratio of the outputs from \d.* dB to \d.* dB \(/,
  );
  const file = path.join(scratch, "cli.recovered.pt2");
  quantizeExample(file, "--recover");
  expect((await downloaded(page, "#save-model")).bytes.equals(readFileSync(file))).toBe(true);
  expect(problems).toEqual([]);
});

test("writes a report that stands alone, as the command line does", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  await takeExample(page);
  await quantize(page);
  const fromPage = path.join(scratch, "page.html");
  const fromNpx = path.join(scratch, "npx.html");
  const fromCli = path.join(scratch, "cli.html");
  writeFileSync(fromPage, (await downloaded(page, "#save-report")).bytes);
  const test = ["--test", "test", "--labels", "test/labels.csv", "--classes", "classes.txt"];
  quantizeExample(path.join(scratch, "r.pt2"), ...test, "--report", fromCli);
  npxQdq(...example(path.join(scratch, "n.pt2")), ...test, "--report", fromNpx);
  const dataOf = (file) => JSON.parse(/id="report">(.*?)<\/script>/s.exec(readFileSync(file, "utf8"))[1]);
  const [a, b] = [dataOf(fromPage), dataOf(fromCli)];
  for (const field of ["model", "nodes", "recipe", "bytes", "samples", "layers", "operators", "observers", "qparams"])
    expect([field, a[field]]).toEqual([field, b[field]]);
  expect(a.errors).toEqual(b.errors);
  // Both run the same kernels on WebAssembly; the native ones add in another order.
  const shown = dataOf(fromNpx);
  const answers = (report) =>
    report.predictions.map(({ sample, file, label, float, int8, moved }) => ({
      ...{ sample, file, label, moved: moved.toFixed(9) },
      ...{
        float: float.map((each) => [each.class, each.share.toFixed(9)]),
        int8: int8.map((each) => [each.class, each.share.toFixed(9)]),
      },
    }));
  expect(answers(a)).toEqual(answers(shown));
  for (const field of ["accuracy", "classes"]) expect([field, a[field]]).toEqual([field, shown[field]]);
  expect(a.sqnr).toBeCloseTo(shown.sqnr, 9);
  expect([b.accuracy.samples, b.predictions.length, b.classes]).toEqual([384, 24, a.classes]);
  for (const report of [a, b, shown]) {
    for (const { image } of report.predictions) expect(image).toMatch(/^data:image\/jpeg;base64,\/9j\//);
    expect(Object.keys(report).sort()).toEqual(Object.keys(a).sort());
  }
  const worst = a.errors.find(({ sqnrDb }) => typeof sqnrDb === "number");
  for (const file of [fromPage, fromCli]) {
    await page.goto(`file://${file}`);
    expect(await page.locator("h2").count()).toBe(6);
    expect(await page.locator("#predictions figure img").count()).toBe(24);
    expect(
      await page.evaluate(() => [...document.images].every((image) => image.complete && image.naturalWidth === 40)),
    ).toBe(true);
    expect(await page.locator("h1").textContent()).toBe("Quantization of model.pt2");
    expect(await page.locator("figure svg").count()).toBeGreaterThan(20);
    // The graph is that of the page: it opens, has the colours of the errors, and shows an operator's details.
    expect(await page.locator(".box.bad, .box.middling").count()).toBeGreaterThan(0);
    await page.getByLabel("open all modules").click();
    expect(await page.locator(".box").count()).toBe(58);
    await page.getByLabel("errors by layer").getByRole("button").first().click();
    expect(await page.getAttribute(`[data-box="${worst.node}"]`, "aria-pressed")).toBe("true");
    expect(await text(page, "#node-details")).toContain(`SQNR${worst.sqnrDb.toFixed(1)} dB`);
    await page.fill("#graph-search", "conv2d_8");
    const facts = await text(page, "#node-details");
    expect(facts).toMatch(/Its value after conversionint8 \[-128, 127\], scale [\d.e-]+, zero point -?\d+/);
    expect(facts).toMatch(/as its inputint8 \[-127, 127\], 72 scales, [\d.e-]+ to [\d.e-]+, zero point 0/);
    expect(facts).toContain("shared with ");
    await page.setViewportSize({ width: 390, height: 844 });
    expect(await page.evaluate(() => document.scrollingElement.scrollWidth - window.innerWidth)).toBeLessThanOrEqual(0);
    await page.setViewportSize({ width: 1280, height: 900 });
  }
  expect(problems).toEqual([]);
});

test("takes dropped files, leaves a layer float at a click, and writes the command line's bytes", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  // A drop of the mouse, made by hand: the browser gives no other way in.
  await page.evaluate(
    (content) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0))], "dropped.pt2"));
      document
        .querySelector("#model .drop")
        .dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
    },
    readFileSync(path.join(shapes, "model.pt2"), "base64"),
  );
  await page.waitForSelector("#layers-view tbody tr");
  expect(await text(page, "#model-name")).toBe("dropped.pt2");

  const data = path.join(scratch, "noise.npy");
  let seed = 7;
  const noise = () => (seed = (seed * 16807) % 2147483647) / 1073741823.5 - 1;
  writeFileSync(data, npy([20, 3, 40, 40], Array.from({ length: 20 * 3 * 40 * 40 }, noise)));
  await page.setInputFiles("#calibration-files", data);
  await page.waitForSelector("#calibration-summary:not(:empty)");
  expect(await text(page, "#calibration-summary")).toBe("Calibration: 20 samples in 2 batches.");

  await page.getByLabel("setting of stem.conv.0").first().selectOption("float");
  await page.waitForSelector("td.outcome.float");
  await page.click("#recipe-details summary");
  const recipe = await page.inputValue("#recipe-json");
  expect(JSON.parse(recipe).module_name).toEqual([["stem.conv.0", null]]);
  await quantize(page);
  expect(await text(page, "#layers")).toBe("20 of 21");
  expect(await page.locator("#top1").count()).toBe(0);

  const recipeFile = path.join(scratch, "recipe.json");
  const file = path.join(scratch, "noise.int8.pt2");
  writeFileSync(recipeFile, recipe);
  qdq("quantize", "model.pt2", "--calibrate", data, "--recipe", recipeFile, "-o", file);
  expect((await downloaded(page, "#save-model")).bytes.equals(readFileSync(file))).toBe(true);

  await openTab(page, "layers");
  await page.getByLabel("setting of stem.conv.0").first().selectOption("by the recipe");
  expect(await page.locator("#recipe-diff .removed").count()).toBeGreaterThan(0);
  await page.selectOption("#diff-against", "the default recipe");
  expect(await page.locator("#recipe-diff .removed, #recipe-diff .added").count()).toBe(0);

  // All layers of a type.
  await page.getByText("Types of layers").click();
  await page.getByLabel("setting of torch.nn.modules.linear.Linear").selectOption("float");
  await page.waitForSelector("td.outcome.float");
  expect(JSON.parse(await page.inputValue("#recipe-json")).module_type).toEqual([
    ["torch.nn.modules.linear.Linear", null],
  ]);
  await page.getByLabel("setting of torch.nn.modules.linear.Linear").selectOption("by the recipe");

  // The same settings at the graph, for a layer and for all of a module.
  await openTab(page, "graph");
  await page.fill("#graph-search", "conv2d_8");
  await page
    .locator("#node-details")
    .getByLabel("setting of inverted1.body")
    .first()
    .selectOption("int8, 4-bit weights");
  await page.waitForFunction(() => document.querySelector("#node-details").textContent.includes("int8 [-8, 7]"));
  await page.selectOption("#diff-against", "the recipe of result 1");
  expect(await page.locator("#recipe-diff .added").textContent()).toContain('"weight_qmax":7');
  await page.setInputFiles("#recipe-file", {
    name: "recipe.json",
    mimeType: "application/json",
    buffer: Buffer.from(
      '{"quantizer": "XNNPACKQuantizer", "global": {}, "module_name": [["head", {"act_qmin": -64, "act_qmax": 63}]]}',
    ),
  });
  await page.fill("#graph-search", "head");
  await page.waitForFunction(() => document.querySelector("#node-details").textContent.includes("int8 [-64, 63]"));
  const setting = page.locator("#node-details").getByLabel("setting of head", { exact: true });
  expect(await setting.locator("option:checked").textContent()).toBe("as in the JSON");
  await page.selectOption("#quantizer", "X86InductorQuantizer");
  await page.waitForFunction(() => document.querySelector("#recipe-json").value.includes("X86"));
  await quantize(page);
  expect(await page.getByRole("button", { name: "Use this recipe" }).count()).toBe(2);
  expect(problems).toEqual([]);
});

test("quantizes without data where the recipe needs none, and measures the result on what comes later", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  await page.setInputFiles("#model-file", path.join(shapes, "model.pt2"));
  await page.waitForFunction(
    () => document.querySelector("#progress-text").textContent === "Drop calibration data first.",
  );
  expect(await page.isDisabled("#start")).toBe(true);
  await page.check("#is_dynamic");
  await page.waitForSelector("#start:not([disabled])");
  expect(await text(page, "#progress-text")).toContain("needs no calibration data");
  await quantize(page);
  expect(await text(page, "#progress-text")).toMatch(
    /^Done: converted in .*; this recipe needs no calibration. Drop data to measure the result on.$/,
  );
  const file = path.join(scratch, "dynamic.pt2");
  const recipe = path.join(scratch, "dynamic.json");
  writeFileSync(recipe, (await downloaded(page, "#save-recipe")).bytes);
  qdq("quantize", "model.pt2", "--recipe", recipe, "-o", file);
  expect((await downloaded(page, "#save-model")).bytes.equals(readFileSync(file))).toBe(true);
  expect(await page.isHidden("#measure")).toBe(true);

  await page.setInputFiles("#test-files", [
    ...images("test", 16),
    path.join(shapes, "test/labels.csv"),
    path.join(shapes, "preprocess.json"),
  ]);
  await page.waitForSelector("#measure:not([hidden])");
  await page.click("#measure");
  await page.waitForFunction(() =>
    document.querySelector("#progress-text").textContent.startsWith("Done: the result is measured"),
  );
  expect(await text(page, "#result")).toContain("on 16 labelled samples");
  expect(await page.getByLabel("errors by layer").locator("tbody tr").count()).toBe(8);
  await openTab(page, "layers");
  expect(await page.locator("#layers-view tbody tr").count()).toBeGreaterThan(20);
  expect(await page.locator("#layers-view meter").count()).toBeGreaterThan(0);
  await page.uncheck("#is_dynamic");
  await page.waitForFunction(
    () => document.querySelector("#progress-text").textContent === "Drop calibration data first.",
  );
  expect(await page.isDisabled("#start")).toBe(true);
  expect(problems).toEqual([]);
});

test("takes the same few samples of every folder as both command lines", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  const folder = path.join(scratch, "few");
  images("calibration", 30).forEach((file, i) => {
    const into = path.join(folder, ["ant", "ant-eater", "bee"][i < 18 ? 0 : i < 20 ? 1 : 2]);
    mkdirSync(into, { recursive: true });
    copyFileSync(file, path.join(into, path.basename(file)));
  });
  await page.setInputFiles("#model-file", path.join(shapes, "model.pt2"));
  await page.waitForSelector("#layers-view tbody tr");
  await page.setInputFiles("#calibration-files-folder", folder);
  await page.waitForSelector("#calibration-summary:not(:empty)");
  await page.setInputFiles("#calibration-files", path.join(shapes, "preprocess.json"));
  await page.fill("#limit", "11");
  await page.press("#limit", "Enter");
  await page.waitForFunction(() =>
    document.querySelector("#calibration-summary").textContent.startsWith("Calibration: 11 samples"),
  );
  await quantize(page);
  const { bytes } = await downloaded(page, "#save-model");
  const file = path.join(scratch, "few.pt2");
  const bytesOf = (program, data, limit) => {
    program("quantize", "model.pt2", "--calibrate", data, ...preprocess, "--limit", limit, "-o", file);
    return readFileSync(file);
  };
  for (const program of [qdq, npxQdq]) expect(bytesOf(program, folder, "11").equals(bytes)).toBe(true);
  // 5 of the first folder, both of the second, 4 of the third.
  const chosen = path.join(scratch, "chosen");
  mkdirSync(chosen);
  images("calibration", 30)
    .filter((_, i) => i < 5 || (i >= 18 && i < 24))
    .forEach((image) => copyFileSync(image, path.join(chosen, path.basename(image))));
  expect(bytesOf(qdq, chosen, "100").equals(bytes)).toBe(true);
  expect(bytesOf(qdq, folder, "12").equals(bytes)).toBe(false);

  // Numbers may be written as people write them.
  expect(await page.getByLabel("Scale", { exact: true }).inputValue()).toBe("1/255");
  for (const [name, words] of [
    ["Scale", "1/128"],
    ["Mean", "0.5, 1/4 0"],
  ]) {
    await page.getByLabel(name, { exact: true }).fill(words);
    await page.getByLabel(name, { exact: true }).press("Enter");
  }
  await page.waitForFunction(() => document.querySelector("#preprocess").value.includes('"mean": [0.5,0.25,0]'));
  expect(JSON.parse(await page.inputValue("#preprocess")).scale).toBe(1 / 128);
  await page.getByLabel("Mean").fill("a half");
  await page.getByLabel("Mean").press("Enter");
  await page.waitForFunction(
    () => document.querySelector("#data .problem").textContent === 'Mean: "a half" holds no numbers',
  );
  expect(problems).toEqual([]);
});

test("takes the folders of images for their classes", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  const folder = path.join(scratch, "by-class");
  const names = readFileSync(path.join(shapes, "classes.txt"), "utf8").split("\n").filter(Boolean);
  const labels = readFileSync(path.join(shapes, "test/labels.csv"), "utf8")
    .trim()
    .split("\n")
    .slice(1, 49)
    .map((line) => line.split(","));
  for (const [file, label] of labels) {
    mkdirSync(path.join(folder, names[label]), { recursive: true });
    copyFileSync(path.join(shapes, "test", file), path.join(folder, names[label], file));
  }
  await page.setInputFiles("#model-file", path.join(shapes, "model.pt2"));
  await page.waitForSelector("#layers-view tbody tr");
  await page.setInputFiles("#calibration-files-folder", path.join(shapes, "calibration"));
  await page.waitForSelector("#calibration-summary:not(:empty)");
  await page.setInputFiles("#calibration-files", path.join(shapes, "preprocess.json"));
  // 16 folders, whose order is not that of the model's classes; then their names.
  await page.setInputFiles("#test-files-folder", folder);
  await page.waitForFunction(() => document.querySelector("#test-summary").textContent.includes("with labels"));
  await page.setInputFiles("#test-files", path.join(shapes, "classes.txt"));
  await quantize(page);
  const file = path.join(scratch, "folders.int8.pt2");
  qdq("quantize", "model.pt2", "--calibrate", "calibration", ...preprocess, "-o", file);
  const how = ["--labels", "folders", "--classes", "classes.txt", ...preprocess, "--json", "--backend", "simd"];
  const [float, int8] = JSON.parse(qdq("evaluate", "model.pt2", file, "--data", folder, ...how));
  expect(float.top1).toBeGreaterThan(75); // another order of the classes would give some 6 %
  expect(await text(page, "#top1")).toBe(`${float.top1.toFixed(2)} % → ${int8.top1.toFixed(2)} %`);
  const label = /label: (\w+)/.exec(await text(page, "#predictions figcaption"))[1];
  expect(names).toContain(label);
  expect(await text(page, "#predictions figcaption")).toMatch(new RegExp(`^${label}/`));

  // Folders that are no classes give no labels, and the page says why.
  for (const [at, [name]] of labels.slice(0, 4).entries()) {
    mkdirSync(path.join(scratch, "parts", `part ${at % 2}`), { recursive: true });
    copyFileSync(path.join(shapes, "test", name), path.join(scratch, "parts", `part ${at % 2}`, name));
  }
  await page.setInputFiles("#test-files-folder", path.join(scratch, "parts"));
  await page.waitForFunction(() =>
    document.querySelector("#test-summary").textContent.includes("No labels: the folder part 0 is named like none"),
  );
  expect(problems).toEqual([]);
});

// Cancels as quick as nobody clicks: as soon as the button is to be seen while the text is so.
const cancelAt = (page, id, wanted) =>
  page.evaluate(
    ([id, wanted]) => {
      const button = document.getElementById(`${id}-cancel`);
      const line = document.getElementById(`${id}-text`);
      const observer = new MutationObserver(() => {
        if (button.hidden || !new RegExp(wanted).test(line.textContent)) return;
        observer.disconnect();
        button.click();
      });
      observer.observe(line.parentElement, { subtree: true, childList: true, characterData: true, attributes: true });
    },
    [id, wanted],
  );

test("cancels in the middle and can begin again", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  await takeExample(page);
  await page.click(".intake summary");
  await page.fill("#batch-size", "1");
  await page.press("#batch-size", "Enter");
  await page.waitForFunction(() => document.querySelector("#calibration-summary").textContent.includes("128 batches"));
  await cancelAt(page, "progress", "batch [1-9]");
  await page.click("#start");
  await page.waitForFunction(() => document.querySelector("#progress-text").textContent === "Cancelled.");
  expect(await page.isHidden("#result")).toBe(true);
  await page.fill("#batch-size", "16");
  await page.press("#batch-size", "Enter");
  await page.waitForFunction(() => document.querySelector("#calibration-summary").textContent.includes("in 8 batches"));
  await quantize(page);
  expect(await page.isVisible("#size")).toBe(true);
  expect(problems).toEqual([]);
});

test("cancels reading, comparing and measuring, and loses nothing that was there", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  const told = (id, wanted) =>
    page.waitForFunction(([id, wanted]) => document.getElementById(id).textContent.startsWith(wanted), [id, wanted]);

  await cancelAt(page, "open", "^Reading model.pt2");
  await page.setInputFiles("#model-file", path.join(shapes, "model.pt2"));
  await told("open-text", "Cancelled.");
  expect(await page.isHidden("#data")).toBe(true);

  await page.setInputFiles("#model-file", path.join(shapes, "model.pt2"));
  await page.waitForSelector("#layers-view tbody tr");
  const others = ["calibration/labels.csv", "preprocess.json"].map((file) => path.join(shapes, file));
  await page.setInputFiles("#calibration-files", [...images("calibration", 24), ...others]);
  await page.waitForSelector("#calibration-summary:not(:empty)");
  await cancelAt(page, "data", "^Reading the calibration data");
  await page.fill("#limit", "8");
  await page.press("#limit", "Enter");
  await told("data-text", "Cancelled.");
  expect(await text(page, "#calibration-summary")).toContain("24 samples");
  expect(await page.inputValue("#limit")).toBe("0");
  await quantize(page);
  const { bytes } = await downloaded(page, "#save-model");

  for (const stage of ["Comparing layers", "Running both models"]) {
    await cancelAt(page, "progress", `^${stage}`);
    await page.press("#start", "Enter");
    await told("progress-text", "Cancelled. The int8 model is ready");
    // The button was disabled; the focus stayed beside it.
    expect(await page.evaluate(() => document.activeElement.className)).toBe("work");
    expect((await downloaded(page, "#save-model")).bytes.equals(bytes)).toBe(true);
    expect(await page.locator("#top1").count()).toBe(0);
    // The model is measured without being quantized again, and what was measured already is not.
    await page.click("#measure");
    await told("progress-text", "Done: the result is measured");
    expect(await page.isVisible("#top1")).toBe(true);
    expect(await page.isHidden("#measure")).toBe(true);
  }
  await page.getByLabel("Save: Result 1", { exact: true }).click();
  expect(await page.getByRole("button", { name: "Use this recipe" }).count()).toBe(3);

  // What came of a calibration that is cancelled is the earlier result, which other data can still be measured on.
  const top1 = await text(page, "#top1");
  await cancelAt(page, "progress", "^Calibrating");
  await page.click("#start");
  await told("progress-text", "Cancelled. The earlier result is kept");
  expect(await text(page, "#top1")).toBe(top1);
  await page.setInputFiles("#test-files", [...images("test", 16), path.join(shapes, "test/labels.csv")]);
  await page.waitForSelector("#measure:not([hidden])");
  expect(await text(page, "#measure")).toBe("Measure this result on this data");
  await page.click("#measure");
  await told("progress-text", "Done: the result is measured");
  expect(await text(page, "#result")).toContain("on 16 labelled samples");
  expect(await page.getByRole("button", { name: "Use this recipe" }).count()).toBe(3);
  expect(problems).toEqual([]);
});

test("says what is wrong with broken files and goes on", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  const model = readFileSync(path.join(shapes, "model.pt2"));
  const buffer = (name, content) => ({ name, mimeType: "application/octet-stream", buffer: Buffer.from(content) });
  const refused = async (input, files, ...parts) => {
    await page.setInputFiles(input, files);
    await page.waitForFunction(
      (wanted) =>
        [...document.querySelectorAll("[role=alert]")].some(
          (alert) => !alert.hidden && wanted.every((part) => alert.textContent.includes(part)),
        ),
      parts,
    );
  };
  await refused("#model-file", buffer("text.pt2", "hello"), "text.pt2 could not be opened");
  await refused("#model-file", buffer("half.pt2", model.subarray(0, model.length / 2)), "half.pt2 could not be opened");
  await refused("#model-file", buffer("notes.txt", "hello"), "none of the 1 files is a model");
  // A file of holes; nothing of it is read.
  const huge = path.join(scratch, "huge.pt2");
  writeFileSync(huge, "PK");
  truncateSync(huge, 5e9);
  await refused(
    "#model-file",
    huge,
    "huge.pt2 has 5000.00 MB, more than the 4 GB that WebAssembly has here (this package was built without the module",
    "use the native program",
  );
  expect(await page.isHidden("#data")).toBe(true);

  await page.setInputFiles("#model-file", path.join(shapes, "model.pt2"));
  await page.waitForSelector("#layers-view tbody tr");
  await refused("#calibration-files", buffer("a.npy", "no array"), "a.npy");
  expect(await page.isDisabled("#start")).toBe(true);
  await refused("#calibration-files", buffer("preprocess.json", "{"), "preprocess.json is not JSON");

  await refused(
    "#calibration-files",
    buffer("b.npy", npy([2, 3, 8, 8], new Array(384).fill(0))),
    "b.npy",
    "[2, 3, 8, 8]",
  );
  expect(await page.isDisabled("#start")).toBe(true);

  const good = images("calibration", 4).map((file) => buffer(path.basename(file), readFileSync(file)));
  const how = buffer("preprocess.json", readFileSync(path.join(shapes, "preprocess.json")));
  await refused("#calibration-files", [...good, buffer("how.json", '{"resiez": 3}')], "resiez");
  // A broken image is met when its batch is decoded.
  await page.setInputFiles("#calibration-files", [...good, buffer("zz.png", "no picture"), how]);
  await page.waitForFunction(() => document.querySelector("#calibration-summary").textContent.includes("5 samples"));
  await page.click("#start");
  await page.waitForFunction(() => document.querySelector("#quantize .problem").textContent.includes("zz.png"));

  await page.click("#recipe-details summary");
  await page.fill("#recipe-json", '{"quantizer": "XNNPACKQuantizr"}');
  await page.dispatchEvent("#recipe-json", "change");
  await page.waitForFunction(() =>
    document.querySelector("#recipe .problem").textContent.includes("did you mean 'XNNPACKQuantizer'"),
  );
  // A setting that reaches nothing.
  await page.fill("#recipe-json", '{"quantizer": "XNNPACKQuantizer", "global": {}, "module_name": [["steem", null]]}');
  await page.dispatchEvent("#recipe-json", "change");
  await page.waitForFunction(() =>
    document.querySelector("#recipe-warnings").textContent.includes("module steem reaches nothing"),
  );
  await page.fill("#recipe-json", '{"quantizer": "XNNPACKQuantizer", "global": {}}');
  await page.dispatchEvent("#recipe-json", "change");
  await page.waitForFunction(() => document.querySelector("#recipe-warnings").textContent === "");
  await page.setInputFiles("#calibration-files", [...good, how]);
  await page.waitForFunction(() => document.querySelector("#calibration-summary").textContent.includes("4 samples"));
  await quantize(page);
  expect(await text(page, "#layers")).toBe("21 of 21");
  expect(problems).toEqual([]);
});

test("works by keyboard alone, names every control, and fits a phone in the dark", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url, {
    viewport: { width: 390, height: 844 },
    colorScheme: "dark",
  });
  // Tab until what has the focus is the element; whoever can see must see where it is.
  const walkTo = async (selector) => {
    for (let i = 0; i < 400; ++i) {
      await page.keyboard.press("Tab");
      if (await page.evaluate((selector) => document.activeElement.matches(selector), selector)) return;
    }
    throw new Error(`the Tab key never comes to ${selector}`);
  };
  await walkTo("#example");
  expect(await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle)).toBe("solid");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#test-summary:not(:empty)");
  await page.waitForSelector("#layers-view tbody tr");
  await page.waitForSelector("#start:focus:not([disabled])");
  await walkTo(".thumbnail");
  await page.keyboard.press("Enter");
  await walkTo(".intake summary");
  await page.keyboard.press("Enter");
  for (const place of ["#calibration-files", "#calibration-files-folder", "#test-files", "#batch-size"])
    await walkTo(place);
  await walkTo("#layers-view td select");
  // One letter: the choice draws the table anew, and what is typed after it would choose again.
  await page.keyboard.press("f");
  await page.waitForSelector("td.outcome.float");
  await walkTo("#start");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector("#progress-text").textContent.startsWith("Done"));
  expect(await text(page, "#layers")).toBe("20 of 21");
  // The verdict has the focus and is in sight, as is the button.
  expect(await page.evaluate(() => document.activeElement.id)).toBe("verdict");
  for (const place of ["#verdict", "#start"]) await expectInSight(page, place);
  await walkTo("#save-model");
  const [saved] = await Promise.all([page.waitForEvent("download"), page.keyboard.press("Enter")]);
  expect(saved.suggestedFilename()).toBe("model.int8.pt2");
  await walkTo("[role=tab]");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  expect(await page.evaluate(() => document.activeElement.id)).toBe("tab-graph");
  await walkTo("#graph-search");
  await page.keyboard.type("conv2d_8");
  expect(await text(page, "#node-details")).toContain("torch.ops.aten.conv2d.default");
  await walkTo("#graph .box");
  await page.keyboard.press("ArrowDown");
  expect(await page.evaluate(() => document.activeElement.matches("#graph .box[aria-pressed=true]"))).toBe(true);

  await page.evaluate(() => document.querySelectorAll("details").forEach((each) => (each.open = true)));
  const unnamed = await page.evaluate(() =>
    [...document.querySelectorAll("input, select, textarea, button, meter, progress")]
      .filter(
        (control) => !control.labels?.length && !control.getAttribute("aria-label") && !control.textContent.trim(),
      )
      .map((control) => control.outerHTML),
  );
  expect(unnamed).toEqual([]);
  expect(await page.evaluate(() => document.scrollingElement.scrollWidth - window.innerWidth)).toBeLessThanOrEqual(0);
  expect(await page.evaluate(() => getComputedStyle(document.body).backgroundColor)).toBe("rgb(20, 23, 27)");
  expect(problems).toEqual([]);
});

test("shows the graph: modules open and close, operators are found and tell all that is known of them", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  await takeExample(page);
  await openTab(page, "graph");
  const boxes = () => page.locator("#graph .box").count();
  await page.getByLabel("close all modules").click();
  const closed = await boxes();
  expect(await page.locator("#graph .box.closed").count()).toBeGreaterThan(5);
  await page.getByLabel("open all modules").click();
  expect(await boxes()).toBe(58); // 57 operators and the input
  await page.getByLabel("close all modules").click();
  expect(await boxes()).toBe(closed);

  // By keyboard: down from the input, open, look inside.
  await page.focus("#graph .box");
  await page.keyboard.press("ArrowDown");
  expect(await text(page, "#node-details")).toContain("Modulestem");
  await page.keyboard.press("Enter");
  expect(await boxes()).toBeGreaterThan(closed);
  expect(await text(page, "#node-details")).toContain("Close stem");

  await page.fill("#graph-search", "conv2d_8");
  const before = await text(page, "#node-details");
  for (const part of [
    "torch.ops.aten.conv2d.default",
    "inverted1.body",
    "float32[s0, 72, 10, 10]",
    "per_channel_symmetric",
    "the global setting asks for it",
  ])
    expect(before).toContain(part);
  await quantize(page);
  await openTab(page, "graph");
  const after = await text(page, "#node-details");
  expect(after).toMatch(/SQNR\d+\.\d dB/);
  expect(after).toMatch(/scale [\d.e-]+, zero point -?\d+/);
  expect(await page.locator("#graph .box.bad, #graph .box.middling").count()).toBeGreaterThan(0);
  // From the table of errors into the graph, and from one operator to the next.
  await openTab(page, "result");
  await page.getByLabel("errors by layer").getByRole("button").nth(3).click();
  await page.locator("#node-details dd .link").first().click();
  expect(await page.locator("#graph .box[aria-pressed=true]").count()).toBe(1);

  // All observers, a page at a time.
  await openTab(page, "observers");
  const where = () => text(page, "#histograms .where");
  expect(await where()).toBe("1 to 24 of 44");
  await page.click("#histograms button:has-text('Next')");
  expect(await where()).toBe("25 to 44 of 44");
  await page.fill(".observer-search", "conv2d_1");
  expect(await where()).toMatch(/^1 to \d+ of \d+$/);
  await page.getByLabel("order of the observers").selectOption("most clipped first");
  const captions = await page.locator("#histograms figcaption").allTextContents();
  const clipped = captions.map((caption) => Number(/([\d.]+) % clipped/.exec(caption)?.[1] ?? 0));
  expect(clipped[0]).toBeGreaterThan(0);
  expect(clipped).toEqual([...clipped].sort((a, b) => b - a));
  expect(problems).toEqual([]);
});

// QDQ_MODELS: a folder of trained models, each a folder with model.pt2 and reference/input.npy, and beside it
// data/imagenet-sample.
const models = process.env.QDQ_MODELS;
const missing = models ? "" : " (skipped: QDQ_MODELS names no folder of models, and there is none at ../shared/models)";
const testModels = models ? test : test.skip;
testModels(`quantizes trained models to the bytes of the command line${missing}`, async () => {
  for (const name of ["mnist-cnn", "cifar-resnet20", "kws-ds-cnn"]) {
    const model = path.join(models, name, "model.pt2");
    const data = path.join(models, name, "reference/input.npy");
    const file = path.join(scratch, `${name}.pt2`);
    const { page, problems } = await openPage(tested.browser, tested.server.url);
    await page.setInputFiles("#model-file", model);
    await page.waitForSelector("#layers-view tbody tr");
    await page.setInputFiles("#calibration-files", data);
    await page.waitForSelector("#calibration-summary:not(:empty)");
    await quantize(page);
    qdq("quantize", model, "--calibrate", data, "-o", file);
    expect([name, (await downloaded(page, "#save-model")).bytes.equals(readFileSync(file))]).toEqual([name, true]);
    expect(problems).toEqual([]);
    await page.close();
  }
});

testModels(`quantizes a trained model on photographs, and measures it on others${missing}`, async () => {
  const photographs = path.join(models, "../data/imagenet-sample");
  const model = path.join(models, "mobilenet-v1-075/model.pt2");
  const all = readFileSync(path.join(photographs, "labels.csv"), "utf8")
    .trim()
    .split("\n")
    .slice(1)
    .map((line) => line.split(","));
  // Folders named by the number of their class.
  const fill = (name, lines) => {
    const folder = path.join(scratch, name);
    for (const [file, label] of lines) {
      mkdirSync(path.join(folder, label), { recursive: true });
      copyFileSync(path.join(photographs, "images", file), path.join(folder, label, file));
    }
    return folder;
  };
  const calibration = fill("photographs", all.filter(([, , , , split]) => split === "calib").slice(0, 16));
  const others = fill(
    "other-photographs",
    all.filter(([, , , , split]) => split === "test").filter((_, i) => i % 38 === 0),
  );
  const how = path.join(scratch, "how.json");
  const file = path.join(scratch, "photographs.pt2");
  writeFileSync(how, '{"resize": 224, "crop": 224, "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}');
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  await page.setInputFiles("#model-file", model);
  await page.waitForSelector("#layers-view tbody tr");
  await page.setInputFiles("#calibration-files-folder", calibration);
  await page.waitForSelector("#calibration-summary:not(:empty)");
  await page.setInputFiles("#calibration-files", how);
  await page.setInputFiles("#test-files-folder", others);
  await page.waitForFunction(() =>
    document.querySelector("#test-summary").textContent.includes("24 samples in 2 batches, with labels"),
  );
  await page.selectOption("#quantizer", "X86InductorQuantizer");
  await quantize(page);
  qdq("quantize", model, "--calibrate", calibration, "--preprocess", how, "--quantizer", "x86-inductor", "-o", file);
  expect((await downloaded(page, "#save-model")).bytes.equals(readFileSync(file))).toBe(true);
  const settings = ["--data", others, "--labels", "folders", "--preprocess", how, "--backend", "simd", "--json"];
  const [float, int8] = JSON.parse(qdq("evaluate", model, file, ...settings));
  expect(float.top1).toBeGreaterThan(60);
  expect(await text(page, "#top1")).toBe(`${float.top1.toFixed(2)} % → ${int8.top1.toFixed(2)} %`);
  expect(await page.locator("#predictions figure img").count()).toBe(24);
  expect(problems).toEqual([]);
});

test("works under any path of a server without headers, where its worker may ask no other host either", async () => {
  let asked = 0;
  const elsewhere = await listen((_, response) =>
    response.writeHead(200, { "access-control-allow-origin": "*" }).end(String(++asked)),
  );
  const plain = await plainServer("/some/where/");
  const { page } = await openPage(tested.browser, plain.url);
  await takeExample(page);
  await quantize(page);
  expect(await text(page, "#layers")).toBe("21 of 21");
  for (const place of [page, page.workers()[0]])
    expect(
      await place.evaluate(
        (url) =>
          fetch(url).then(
            (answer) => answer.text(),
            (error) => error.name,
          ),
        elsewhere.url,
      ),
    ).toBe("TypeError");
  expect(asked).toBe(0);
  await page.close();
  elsewhere.close();
  plain.close();
});

test("may ask no other host", async () => {
  const { page } = await openPage(tested.browser, tested.server.url);
  expect(
    await page.evaluate(() =>
      fetch("http://127.0.0.2:9/").then(
        () => "went out",
        (error) => error.name,
      ),
    ),
  ).toBe("TypeError");
  const policy = await page.evaluate(
    () =>
      new Promise((resolve) => {
        document.addEventListener("securitypolicyviolation", (event) => resolve(event.effectiveDirective), {
          once: true,
        });
        void fetch("http://127.0.0.2:9/").catch(() => {});
      }),
  );
  expect(policy).toBe("connect-src");
});
