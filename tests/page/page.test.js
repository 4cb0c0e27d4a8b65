// The built page in a real browser, from drop to download: the bytes of the command line.
const { copyFileSync, mkdirSync, readFileSync, writeFileSync } = require("node:fs");
const path = require("node:path");
const {
  downloaded,
  images,
  inBrowser,
  npxQdq,
  npy,
  openPage,
  openTab,
  preprocess,
  qdq,
  quantize,
  scratch,
  clothing,
  takeExample,
  text,
} = require("./page.js");

const tested = inBrowser();

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
  expect(await text(page, "#calibration-summary")).toBe("Calibration: 100 samples in 7 batches, with labels.");
  // What the panels hide, they scroll: the page ends where the views do.
  const [end, views] = await page.evaluate(() => {
    document.querySelectorAll(".side details").forEach((each) => (each.open = true));
    const sizes = [document.scrollingElement.scrollHeight, document.querySelector(".bench").offsetHeight];
    document.querySelectorAll(".side details").forEach((each) => (each.open = false));
    return sizes;
  });
  expect(end).toBeLessThan(Math.max(views, 900) + 100);
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
  expect(await text(page, "#size")).toBe(`${(float.bytes / 1e3).toFixed(1)} kB → ${(int8.bytes / 1e3).toFixed(1)} kB`);
  expect(await text(page, "#layers")).toBe("21 of 21");
  expect(await page.locator("#predictions figure").count()).toBe(24);
  expect(await page.locator("#histograms svg").count()).toBeGreaterThan(20);
  // The picture of README.md: QDQ_PICTURE=docs/page.png ./dev test page
  if (process.env.QDQ_PICTURE) {
    await page.setViewportSize({ width: 1240, height: 760 });
    await openTab(page, "predictions");
    await page.evaluate(() => document.activeElement.blur());
    await page.screenshot({ path: process.env.QDQ_PICTURE });
    await openTab(page, "result");
  }

  // What is saved is good for the command line: recipe and statistics give the same model without data.
  const statistics = (await downloaded(page, "#save-observers")).bytes;
  const recipe = (await downloaded(page, "#save-recipe")).bytes;
  quantizeExample(file, "--observers", path.join(scratch, "observers.json"));
  expect(JSON.parse(statistics)).toEqual(JSON.parse(readFileSync(path.join(scratch, "observers.json"))));
  expect(JSON.parse(recipe)).toEqual(JSON.parse(readFileSync(path.join(clothing, "recipe.json"))));
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
  expect(await text(page, "#progress-text")).toMatch(/^Done: calibrated in [^,]*, converted in [^,]*\.$/);
  expect(await text(page, "#gained")).toMatch(
    /^Recovery raised the SQNR on the calibration samples from \d.* dB to \d.* dB \(/,
  );
  // Ranges that end where a clamp cuts values off anyway are no errors.
  await page.waitForSelector("#verdict");
  const worst = await page.locator("#result [aria-label='errors by layer'] td.n").first().textContent();
  expect(parseFloat(worst)).toBeGreaterThan(10);
  const file = path.join(scratch, "cli.recovered.pt2");
  quantizeExample(file, "--recover");
  expect((await downloaded(page, "#save-model")).bytes.equals(readFileSync(file))).toBe(true);
  // Its observers have ranges alone, and nothing speaks of dashed lines.
  await openTab(page, "observers");
  expect(await text(page, "#histograms")).toMatch(/^These observers have no histograms/);
  // Both results have the same size and score; their names do not cover each other.
  await page.getByLabel("Recover accuracy").uncheck();
  await quantize(page);
  await page.waitForFunction(() => document.querySelectorAll("#pareto .dot").length === 3);
  expect(await text(page, "#histograms")).toMatch(/^Heights are logarithmic/);
  await openTab(page, "pareto");
  const [one, other] = await Promise.all(
    ["Result 1", "Result 2"].map((name) => page.locator("#pareto .dot text", { hasText: name }).boundingBox()),
  );
  expect(Math.abs(one.y - other.y)).toBeGreaterThanOrEqual(Math.min(one.height, other.height) - 1);
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
  expect([b.accuracy.samples, b.predictions.length, b.classes]).toEqual([300, 24, a.classes]);
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
      await page.evaluate(() => [...document.images].every((image) => image.complete && image.naturalWidth === 28)),
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
    expect(facts).toMatch(/as its inputint8 \[-127, 127\], 40 scales, [\d.e-]+ to [\d.e-]+, zero point 0/);
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
    readFileSync(path.join(clothing, "model.pt2"), "base64"),
  );
  await page.waitForSelector("#layers-view tbody tr");
  expect(await text(page, "#model-name")).toBe("dropped.pt2");

  const data = path.join(scratch, "noise.npy");
  let seed = 7;
  const noise = () => (seed = (seed * 16807) % 2147483647) / 1073741823.5 - 1;
  writeFileSync(data, npy([20, 1, 28, 28], Array.from({ length: 20 * 28 * 28 }, noise)));
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
  expect(await page.getByRole("button", { name: "Use recipe" }).count()).toBe(2);
  expect(problems).toEqual([]);
});

test("quantizes without data where the recipe needs none, and measures the result on what comes later", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  await page.setInputFiles("#model-file", path.join(clothing, "model.pt2"));
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
    path.join(clothing, "test/labels.csv"),
    path.join(clothing, "preprocess.json"),
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
  await page.setInputFiles("#model-file", path.join(clothing, "model.pt2"));
  await page.waitForSelector("#layers-view tbody tr");
  await page.setInputFiles("#calibration-files-folder", folder);
  await page.waitForSelector("#calibration-summary:not(:empty)");
  await page.setInputFiles("#calibration-files", path.join(clothing, "preprocess.json"));
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
  for (const [name, size] of [
    ["Letterbox", "40"],
    ["Resize", "28"],
  ]) {
    await page.getByLabel(name, { exact: true }).fill(size);
    await page.getByLabel(name, { exact: true }).press("Enter");
    const key = name.toLowerCase();
    await page.waitForFunction(
      ([key, size]) => JSON.parse(document.querySelector("#preprocess").value)[key] === Number(size),
      [key, size],
    );
    const found = JSON.parse(await page.inputValue("#preprocess"));
    expect(["resize", "letterbox"].filter((size) => size in found)).toEqual([key]);
  }
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
  const names = readFileSync(path.join(clothing, "classes.txt"), "utf8").split("\n").filter(Boolean);
  const labels = readFileSync(path.join(clothing, "test/labels.csv"), "utf8")
    .trim()
    .split("\n")
    .slice(1, 49)
    .map((line) => line.split(","));
  for (const [file, label] of labels) {
    mkdirSync(path.join(folder, names[label]), { recursive: true });
    copyFileSync(path.join(clothing, "test", file), path.join(folder, names[label], file));
  }
  await page.setInputFiles("#model-file", path.join(clothing, "model.pt2"));
  await page.waitForSelector("#layers-view tbody tr");
  await page.setInputFiles("#calibration-files-folder", path.join(clothing, "calibration"));
  await page.waitForSelector("#calibration-summary:not(:empty)");
  await page.setInputFiles("#calibration-files", path.join(clothing, "preprocess.json"));
  // 10 folders, whose order is not that of the model's classes; then their names.
  await page.setInputFiles("#test-files-folder", folder);
  await page.waitForFunction(() => document.querySelector("#test-summary").textContent.includes("with labels"));
  await page.setInputFiles("#test-files", path.join(clothing, "classes.txt"));
  await quantize(page);
  const file = path.join(scratch, "folders.int8.pt2");
  qdq("quantize", "model.pt2", "--calibrate", "calibration", ...preprocess, "-o", file);
  const how = ["--labels", "folders", "--classes", "classes.txt", ...preprocess, "--json", "--backend", "simd"];
  const [float, int8] = JSON.parse(qdq("evaluate", "model.pt2", file, "--data", folder, ...how));
  expect(float.top1).toBeGreaterThan(75); // another order of the classes would give some 6 %
  expect(await text(page, "#top1")).toBe(`${float.top1.toFixed(2)} % → ${int8.top1.toFixed(2)} %`);
  const label = /label: (.+)$/.exec(await text(page, "#predictions figcaption"))[1];
  expect(names).toContain(label);
  expect(await text(page, "#predictions figcaption")).toMatch(new RegExp(`^${label}/`));

  // Folders that are no classes give no labels, and the page says why.
  for (const [at, [name]] of labels.slice(0, 4).entries()) {
    mkdirSync(path.join(scratch, "parts", `part ${at % 2}`), { recursive: true });
    copyFileSync(path.join(clothing, "test", name), path.join(scratch, "parts", `part ${at % 2}`, name));
  }
  await page.setInputFiles("#test-files-folder", path.join(scratch, "parts"));
  await page.waitForFunction(() =>
    document.querySelector("#test-summary").textContent.includes("No labels: the folder part 0 has the name of none"),
  );
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
