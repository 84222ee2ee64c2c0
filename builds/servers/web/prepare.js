// Pictures and sounds as the numbers of an input. The rules are those of the module's
// manifest; a browser resizes a little differently than mm.

// picture returns the numbers and the shape of a picture.
export async function picture(file, input) {
  const spec = input.prepare ?? {}, { layout, height, width, channels } = frame(input, spec);
  const bitmap = await createImageBitmap(file);
  const canvas = new OffscreenCanvas(width || bitmap.width, height || bitmap.height);
  const context = canvas.getContext('2d', { willReadFrequently: true });
  context.imageSmoothingEnabled = spec.resample !== 'nearest';
  context.imageSmoothingQuality = 'high';
  context.fillStyle = 'white';
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  const pixels = context.getImageData(0, 0, canvas.width, canvas.height).data;
  const count = canvas.width * canvas.height, values = new Float64Array(count * channels);
  const first = layout.indexOf('C') < layout.indexOf('H');
  for (let i = 0; i < count; i++) {
    for (let c = 0; c < channels; c++) {
      values[first ? c * count + i : i * channels + c] = scaled(color(pixels, 4 * i, c, channels, spec.color), c, spec);
    }
  }
  const sizes = { N: 1, C: channels, H: canvas.height, W: canvas.width };
  return { values, dims: [...layout].map(axis => sizes[axis]) };
}

// frame returns the layout and the sizes of a picture; 0 for the picture's own.
function frame(input, spec) {
  const dims = input.dims, at = i => typeof dims[i] === 'number' ? dims[i] : 0;
  let layout = spec.layout;
  if (!layout) {
    const last = at(dims.length - 1), front = at(dims.length - 3);
    layout = (last === 3 || last === 1) && front !== 3 && front !== 1 ? 'HWC' : 'CHW';
    if (dims.length === 4) layout = 'N' + layout;
  }
  const size = axis => at(layout.indexOf(axis));
  const [height, width] = spec.resize ?? [size('H'), size('W')];
  return { layout, height, width, channels: size('C') || (spec.color === 'gray' ? 1 : 3) };
}

function color(pixels, i, c, channels, order) {
  if (channels === 1) return Math.round(.299 * pixels[i] + .587 * pixels[i + 1] + .114 * pixels[i + 2]);
  return pixels[i + (order === 'bgr' ? 2 - c : c)];
}

function scaled(v, c, spec) {
  const of = (list, i, none) => list?.length ? list[list.length > 1 ? i : 0] : none;
  return (v * (spec.scale || 1) - of(spec.mean, c, 0)) / of(spec.std, c, 1);
}

// sound returns the samples of a sound, cut or padded with silence to a fixed length.
export async function sound(file, input) {
  const spec = input.prepare, rate = spec.sample_rate;
  const decoder = new OfflineAudioContext(1, rate, rate);
  const buffer = await decoder.decodeAudioData(await file.arrayBuffer());
  const fixed = input.dims.at(-1), length = typeof fixed === 'number' ? fixed : buffer.length;
  const values = new Float64Array(length);
  for (let c = 0; c < buffer.numberOfChannels; c++) {
    const samples = buffer.getChannelData(c);
    for (let i = 0; i < Math.min(length, samples.length); i++) values[i] += samples[i] / buffer.numberOfChannels;
  }
  return { values: values.map(v => scaled(v, 0, spec)), dims: null };
}
