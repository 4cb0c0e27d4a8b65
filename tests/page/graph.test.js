// The drawing of a model.
const { inBrowser, openPage, openTab, quantize, takeExample, text } = require("./page.js");

const tested = inBrowser();

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
    "float32[s0, 40, 7, 7]",
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
