// The page by keyboard alone, for screen readers, and on a phone.
const { inBrowser, openPage, text } = require("./page.js");

const tested = inBrowser();

// Whether the middle of an element lies in the window.
async function expectInSight(page, selector) {
  const { y, height } = await page.locator(selector).boundingBox();
  expect(y + height / 2).toBeGreaterThan(0);
  expect(y + height / 2).toBeLessThan(page.viewportSize().height);
}

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
