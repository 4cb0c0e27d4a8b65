// The page asks no other host, wherever it lies.
const { inBrowser, listen, openPage, plainServer, quantize, takeExample, text } = require("./page.js");

const tested = inBrowser();

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
