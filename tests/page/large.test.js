// A model of 2000 operators in the page.
const { largeOnnx } = require("./large-onnx.js");
const { buffer, inBrowser, openPage, openTab, text } = require("./page.js");

const tested = inBrowser();

test("a model of 2000 operators: rows are few, scroll to the end, and the graph draws a part", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  const { model, weights } = largeOnnx(1000, { beside: "deep.data" });
  await page.setInputFiles("#model-file", buffer("deep.onnx", model));
  await page.waitForSelector("#model .problem:not([hidden])");
  expect(await text(page, "#model .problem")).toContain("has its data in another file, deep.data");
  // The data may come after the model, or together with it.
  await page.setInputFiles("#model-file", buffer("deep.data", weights));
  await page.waitForSelector("#layers-view tbody tr:not(.gap)");
  await page.setInputFiles("#model-file", [buffer("again.onnx", model), buffer("deep.data", weights)]);
  await page.waitForFunction(() => document.querySelector("#model-name").textContent === "again.onnx");
  await page.waitForSelector("#layers-view tbody tr:not(.gap)");
  // Without modules there are settings by operator.
  expect(await text(page, "#explained")).toContain("The file names no modules.");
  await page.getByText("Types of layers", { exact: true }).click();
  await page.getByLabel("setting of torch.ops.aten.conv2d").selectOption("float");
  await page.waitForSelector("td.outcome.float");
  await page.click("#undo");
  await page.waitForSelector("td.outcome.quantized");
  const rows = page.locator("#layers-view tbody tr:not(.gap)");
  // The file calls its weights w0, w1, ...
  expect(await rows.first().textContent()).toContain("64 B[4, 4, 1, 1]");
  expect(await page.getAttribute("#layers-view table", "aria-rowcount")).toBe("2001");
  expect(await rows.count()).toBeLessThan(60);
  await page.locator("#layers-view .scroll").evaluate((box) => {
    box.scrollTop += 1e6;
  });
  await page.waitForFunction(() => document.querySelector("#layers-view [data-node=relu_999]"));
  const last = await rows.last().boundingBox();
  expect(await rows.last().getAttribute("data-node")).toBe("relu_999");
  expect(last.height).toBeCloseTo(56, 0);
  await page.fill("#layer-filter", "conv2d_77");
  await page.waitForFunction(() => document.querySelectorAll("#layers-view tbody tr").length === 11);

  await openTab(page, "graph");
  expect(await page.locator("#graph .box").count()).toBeGreaterThan(20);
  expect(await page.locator("#graph .box").count()).toBeLessThan(400);
  // It begins at the input, however wide it is.
  const edges = (selector) => page.locator(selector).first().boundingBox();
  const [canvas, first] = [await edges("#graph .graph"), await edges("#graph .box")];
  expect(first.x).toBeGreaterThanOrEqual(canvas.x);
  expect(first.x + first.width).toBeLessThanOrEqual(canvas.x + canvas.width);
  await page.click("[title^=Fit]");
  expect(await page.locator("#graph .bare").count()).toBeGreaterThan(0);
  await page.fill("#graph-search", "conv2d_777");
  expect(await page.getAttribute("#graph [aria-pressed=true]", "data-box")).toBe("conv2d_777");
  // The minimap leads elsewhere.
  const before = await page.locator("#graph .minimap .seen").getAttribute("x");
  await page.locator("#graph .minimap").click({ position: { x: 30, y: 60 } });
  expect(await page.locator("#graph .minimap .seen").getAttribute("x")).not.toBe(before);
  expect(problems).toEqual([]);
});

test("a model of 2000 operators in modules: what is drawn stays small wherever it is", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  await page.setInputFiles("#model-file", buffer("modules.onnx", largeOnnx(1000, { hasModules: true }).model));
  await page.waitForSelector("#layers-view tbody tr:not(.gap)");
  const count = (selector) => page.locator(selector).count();
  const table = page.locator("#layers-view .scroll");
  for (let i = 0; i < 10; ++i) {
    await table.evaluate((box, i) => {
      box.scrollTop = (i * box.scrollHeight) / 10;
    }, i);
    await page.evaluate(() => new Promise(requestAnimationFrame));
    expect(await count("#layers-view tbody tr")).toBeLessThan(60);
  }
  await openTab(page, "graph");
  expect(await count("#graph .box.closed")).toBeGreaterThan(5);
  await page.getByLabel("Open all modules").click();
  for (let i = 0; i < 12; ++i) {
    expect(await count("#graph svg.graph *")).toBeLessThan(2500);
    await page.getByLabel("zoom out").click();
  }
  expect(await count("#graph .bare")).toBeGreaterThan(0);
  // A search in modules that are open lays out nothing.
  const minimap = await page.locator("#graph .minimap .bare").first().elementHandle();
  await page.fill("#graph-search", "conv2d_777");
  expect(await page.getAttribute("#graph [aria-pressed=true]", "data-box")).toBe("conv2d_777");
  expect(await minimap.evaluate((element) => element.isConnected)).toBe(true);
  expect(problems).toEqual([]);
});
