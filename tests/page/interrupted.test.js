// What stops the work of the page: somebody who cancels it, and files that are broken.
const { readFileSync, truncateSync, writeFileSync } = require("node:fs");
const path = require("node:path");
const {
  buffer,
  downloaded,
  images,
  inBrowser,
  npy,
  openPage,
  quantize,
  scratch,
  clothing,
  takeExample,
  text,
} = require("./page.js");

const tested = inBrowser();

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
  await page.waitForFunction(() => document.querySelector("#calibration-summary").textContent.includes("100 batches"));
  await cancelAt(page, "progress", "batch [1-9]");
  await page.click("#start");
  await page.waitForFunction(() => document.querySelector("#progress-text").textContent === "Cancelled.");
  expect(await page.isHidden("#result")).toBe(true);
  await page.fill("#batch-size", "16");
  await page.press("#batch-size", "Enter");
  await page.waitForFunction(() => document.querySelector("#calibration-summary").textContent.includes("in 7 batches"));
  await quantize(page);
  expect(await page.isVisible("#size")).toBe(true);
  expect(problems).toEqual([]);
});

test("cancels reading, comparing and measuring, and loses nothing that was there", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  const told = (id, wanted) =>
    page.waitForFunction(([id, wanted]) => document.getElementById(id).textContent.startsWith(wanted), [id, wanted]);

  await cancelAt(page, "open", "^Reading model.pt2");
  await page.setInputFiles("#model-file", path.join(clothing, "model.pt2"));
  await told("open-text", "Cancelled.");
  expect(await page.isHidden("#data")).toBe(true);

  await page.setInputFiles("#model-file", path.join(clothing, "model.pt2"));
  await page.waitForSelector("#layers-view tbody tr");
  const others = ["calibration/labels.csv", "preprocess.json"].map((file) => path.join(clothing, file));
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
  expect(await page.getByRole("button", { name: "Use recipe" }).count()).toBe(3);

  // What came of a calibration that is cancelled is the earlier result, which other data can still be measured on.
  const top1 = await text(page, "#top1");
  await cancelAt(page, "progress", "^Calibrating");
  await page.click("#start");
  await told("progress-text", "Cancelled. The earlier result is kept");
  expect(await text(page, "#top1")).toBe(top1);
  await page.setInputFiles("#test-files", [...images("test", 16), path.join(clothing, "test/labels.csv")]);
  await page.waitForSelector("#measure:not([hidden])");
  expect(await text(page, "#measure")).toBe("Measure this result on this data");
  await page.click("#measure");
  await told("progress-text", "Done: the result is measured");
  expect(await text(page, "#result")).toContain("on 16 labelled samples");
  expect(await page.getByRole("button", { name: "Use recipe" }).count()).toBe(3);
  expect(problems).toEqual([]);
});

test("says what is wrong with broken files and goes on", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  const model = readFileSync(path.join(clothing, "model.pt2"));
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
  await refused("#model-file", buffer("notes.txt", "hello"), "notes.txt is not a model");
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

  await page.setInputFiles("#model-file", path.join(clothing, "model.pt2"));
  await page.waitForSelector("#layers-view tbody tr");
  await refused("#calibration-files", buffer("a.npy", "no array"), "a.npy");
  expect(await page.isDisabled("#start")).toBe(true);
  await refused("#calibration-files", buffer("preprocess.json", "{"), "preprocess.json could not be read");

  await refused(
    "#calibration-files",
    buffer("b.npy", npy([2, 3, 8, 8], new Array(384).fill(0))),
    "b.npy",
    "[2, 3, 8, 8]",
  );
  expect(await page.isDisabled("#start")).toBe(true);

  const good = images("calibration", 4).map((file) => buffer(path.basename(file), readFileSync(file)));
  const how = buffer("preprocess.json", readFileSync(path.join(clothing, "preprocess.json")));
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
