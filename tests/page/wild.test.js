// ONNX models of any origin in the page: each opens, is quantized by both quantizers, and is saved in both formats with
// the bytes of the command line. They are ../shared/wild beside the checkout, or the folder QDQ_WILD: a folder for each
// model, with model.onnx, what it keeps in other files, and inputs.npz.
const { execFileSync } = require("node:child_process");
const { existsSync, readFileSync, readdirSync } = require("node:fs");
const path = require("node:path");
const { downloaded, inBrowser, openPage, qdq, quantize, root, scratch } = require("./page.js");

const wild = process.env.QDQ_WILD ?? "";
const names = existsSync(wild)
  ? readdirSync(wild, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []))
  : [];

// Both branches of its If are open: their results have no number of axes that both agree on.
const withoutPt2 = ["silero_vad_16k_op15"];

const tested = inBrowser();

// The arrays of an .npz as the first batch, whatever the model calls its inputs.
function batchOf(source, target) {
  const rename = "import sys; from onnx_models import name_by_position; name_by_position(sys.argv[1], sys.argv[2])";
  execFileSync("python3", ["-c", rename, source, target], {
    env: { ...process.env, PYTHONPATH: `${root}/tests/beside` },
  });
  return target;
}

const missing = "ONNX models of any origin (skipped: there is no ../shared/wild, and QDQ_WILD names no folder)";
const each = names.length > 0 ? test.each(names) : test.skip.each([missing]);

each("quantizes and saves %s", async (name) => {
  const folder = path.join(wild, name);
  const files = readdirSync(folder).filter((file) => file.startsWith("model.onnx") || file.endsWith(".data"));
  const data = batchOf(path.join(folder, "inputs.npz"), path.join(scratch, `${name}.npz`));
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  await page.setInputFiles(
    "#model-file",
    files.map((file) => path.join(folder, file)),
  );
  await page.waitForSelector("#layers-view tbody tr:not(.gap)");
  await page.setInputFiles("#calibration-files", data);
  await page.waitForSelector("#calibration-summary:not(:empty)");
  for (const [choice, quantizer] of [
    ["XNNPACKQuantizer", "xnnpack"],
    ["X86InductorQuantizer", "x86-inductor"],
  ]) {
    await page.selectOption("#quantizer", choice);
    await quantize(page);
    for (const [button, ending] of [
      ["#save-model", "pt2"],
      ["#save-onnx", "onnx"],
    ]) {
      const wanted = path.join(scratch, `${name}.${quantizer}.${ending}`);
      const words = ["--calibrate", data, "--quantizer", quantizer, "-o", wanted];
      if (ending === "pt2" && withoutPt2.includes(name)) {
        expect(() => qdq("quantize", path.join(folder, "model.onnx"), ...words)).toThrow("cannot be written to a .pt2");
        await page.click(button);
        expect(await page.textContent("#save-problem")).toMatch(/^There is no .pt2 of this result: .* --fix /);
        continue;
      }
      qdq("quantize", path.join(folder, "model.onnx"), ...words);
      const { bytes } = await downloaded(page, button);
      expect([quantizer, ending, bytes.equals(readFileSync(wanted))]).toEqual([quantizer, ending, true]);
    }
  }
  expect(problems).toEqual([]);
  await page.context().close();
});
