// A page that classifies pictures with an int8 model: public/model.int8.pt2 and public/classes.txt, one name a line.
import { openSession, tensor } from "qdq/async";

const mean = 0.5; // how the model was trained: preprocess.json of examples/shapes
const std = 0.215;

const [input] = document.getElementsByTagName("input");
const [output] = document.getElementsByTagName("output");
const get = async (name) => {
  const answer = await fetch(`${import.meta.env.BASE_URL}${name}`);
  if (!answer.ok) throw new Error(`${name}: ${answer.status}`);
  return answer;
};

const classes = (await (await get("classes.txt")).text()).trim().split("\n");
const session = await openSession(await (await get("model.int8.pt2")).arrayBuffer());
const side = 40;

// The picture as floats [1, 3, side, side].
async function read(file) {
  const bitmap = await createImageBitmap(file);
  const canvas = new OffscreenCanvas(side, side);
  const context = canvas.getContext("2d");
  context.drawImage(bitmap, 0, 0, side, side);
  const { data } = context.getImageData(0, 0, side, side);
  const values = new Float32Array(3 * side * side);
  for (let i = 0; i < side * side; ++i)
    for (let k = 0; k < 3; ++k) values[k * side * side + i] = (data[4 * i + k] / 255 - mean) / std;
  return tensor(values, [1, 3, side, side]);
}

input.addEventListener("change", async () => {
  try {
    const outputs = await session.run([await read(input.files[0])]); // in a worker: the page goes on drawing
    const scores = Object.values(outputs)[0].data;
    output.textContent = classes[scores.indexOf(Math.max(...scores))];
  } catch (error) {
    output.textContent = error.message;
  }
});
input.disabled = false;
