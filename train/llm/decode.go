package llm

import (
	"fmt"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/train/nn"
)

// Decoder runs a model one token at a time: attention over a cache of keys and
// values, RWKV with a state whose size is independent of the text. Its logits
// are those of a Pass over the same tokens. It is for samples during training;
// core/infer is the inference engine.
type Decoder[F tensor.Float] struct {
	m        *Model[F]
	pos      int
	rotation *nn.Rotation[F] // of Context positions
	x, final nn.Matrix[F]    // [1, C]
	logits   nn.Matrix[F]    // [1, V]
	head     nn.Product[F]
	layers   []decodeLayer[F]
	scores   []F // [Context]
	rms      []F // [max(H+G, 1)]
	decay    []F // [D]
}

// decodeLayer is the cache or state of one block and its scratch.
type decodeLayer[F tensor.Float] struct {
	norm1, norm2, mixed nn.Matrix[F] // [1, C], [1, C], [1, H·D]
	qkv, out, up, down  nn.Product[F]
	r, k, v             nn.Product[F]
	keys, values        nn.Matrix[F] // [Context, G·D]
	prev                []F          // [C]: the normed input one position earlier
	state               []F          // [H, D, D]
	o                   nn.Matrix[F] // [1, H·D]
}

// NewDecoder returns a decoder of an empty text. The model must be packed
// (Refresh) and must not change while the decoder is in use.
func (m *Model[F]) NewDecoder() *Decoder[F] {
	c := m.Config
	d := &Decoder[F]{m: m, x: nn.NewMatrix[F](1, c.Dim), final: nn.NewMatrix[F](1, c.Dim), logits: nn.NewMatrix[F](1, c.Vocab)}
	d.rotation = rotation[F](c, c.Context)
	d.scores, d.rms, d.decay = make([]F, c.Context), make([]F, c.Heads+c.KVHeads), make([]F, c.HeadDim)
	d.head = nn.NewProduct(m.head, d.final, d.logits, d.logits)
	for i := range m.blocks {
		d.layers = append(d.layers, newDecodeLayer(c, &m.blocks[i], d.x))
	}
	return d
}

func newDecodeLayer[F tensor.Float](c Config, b *block[F], x nn.Matrix[F]) decodeLayer[F] {
	y := decodeLayer[F]{norm1: nn.NewMatrix[F](1, c.Dim), norm2: nn.NewMatrix[F](1, c.Dim), mixed: nn.NewMatrix[F](1, c.Heads*c.HeadDim)}
	var none nn.Matrix[F]
	if b.mix != nil {
		one := func(l *nn.Linear[F]) nn.Product[F] {
			return nn.NewProduct(l, nn.NewMatrix[F](1, l.In), nn.NewMatrix[F](1, l.Out), none)
		}
		y.r, y.k, y.v = one(b.mix.r), one(b.mix.k), one(b.mix.v)
		y.prev, y.state, y.o = make([]F, c.Dim), make([]F, c.Heads*c.HeadDim*c.HeadDim), nn.NewMatrix[F](1, c.Heads*c.HeadDim)
	} else {
		y.qkv = nn.NewProduct(b.attn.QKV, y.norm1, nn.NewMatrix[F](1, b.attn.QKV.Out), none)
		y.keys, y.values = nn.NewMatrix[F](c.Context, c.KVHeads*c.HeadDim), nn.NewMatrix[F](c.Context, c.KVHeads*c.HeadDim)
	}
	y.out = nn.NewProduct(b.out, y.mixed, x, none)
	y.up = nn.NewProduct(b.ffn.Up, y.norm2, nn.NewMatrix[F](1, b.ffn.Up.Out), none)
	y.down = nn.NewProduct(b.ffn.Down, nn.NewMatrix[F](1, c.Hidden), x, none)
	return y
}

// Len returns the number of tokens fed.
func (d *Decoder[F]) Len() int { return d.pos }

// Reset clears the text.
func (d *Decoder[F]) Reset() {
	d.pos = 0
	for i := range d.layers {
		clear(d.layers[i].prev)
		clear(d.layers[i].state)
	}
}

// Feed appends one token and returns the logits [V] of the next, valid until
// the next call. With attention, the text is limited to Config.Context.
func (d *Decoder[F]) Feed(token int32) ([]F, error) {
	c := d.m.Config
	if token < 0 || int(token) >= c.Vocab {
		return nil, fmt.Errorf("token %d out of range, vocabulary size is %d", token, c.Vocab)
	}
	if c.Mixer == Attention && d.pos >= c.Context {
		return nil, fmt.Errorf("context of %d positions is full", c.Context)
	}
	x := d.x.Row(0)
	d.m.embed.Row(x, int(token))
	if d.m.embedNorm.Gain != nil {
		tensor.NormForward(x, x, d.m.embedNorm.Gain.Data, F(c.NormEps))
	}
	for i := range d.layers {
		y, b := &d.layers[i], &d.m.blocks[i]
		tensor.NormForward(y.norm1.Row(0), x, b.norm1.Gain.Data, F(c.NormEps))
		if b.mix != nil {
			d.mix(y, b.mix)
		} else {
			d.attend(y, b)
		}
		y.out.Forward(0, 1, true)
		tensor.NormForward(y.norm2.Row(0), x, b.norm2.Gain.Data, F(c.NormEps))
		y.up.Forward(0, 1, false)
		b.ffn.Act(y.down.X.Row(0), y.up.Y.Row(0))
		y.down.Forward(0, 1, true)
	}
	tensor.NormForward(d.final.Row(0), x, d.m.norm.Gain.Data, F(c.NormEps))
	d.head.Forward(0, 1, false)
	d.pos++
	return d.logits.Row(0), nil
}

// attend computes attention over the cache for one position.
func (d *Decoder[F]) attend(y *decodeLayer[F], b *block[F]) {
	c := d.m.Config
	hd, wide, kv := c.HeadDim, c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	y.qkv.Forward(0, 1, false)
	row := y.qkv.Y.Row(0)
	if c.QKNorm {
		for h := range c.Heads + c.KVHeads {
			norm, head := b.attn.HeadNorm(h), row[h*hd:(h+1)*hd]
			tensor.NormForward(head, head, norm.Gain.Data, norm.Eps)
		}
	}
	tensor.Rotate(row[:wide+kv], hd, d.rotation.Cos.Row(d.pos), d.rotation.Sin.Row(d.pos), d.rotation.Pairs)
	copy(y.keys.Row(d.pos), row[wide:wide+kv])
	copy(y.values.Row(d.pos), row[wide+kv:])
	out := y.mixed.Row(0)
	clear(out)
	for h := range c.Heads {
		g := h / (c.Heads / c.KVHeads) * hd
		scores := d.scores[:d.pos+1]
		for t := range scores {
			scores[t] = tensor.Inner(row[h*hd:(h+1)*hd], y.keys.Row(t)[g:g+hd]) * F(invSqrt(hd))
		}
		tensor.SoftmaxForward(scores, 0, len(scores))
		for t, s := range scores {
			tensor.AddScaled(out[h*hd:(h+1)*hd], s, y.values.Row(t)[g:g+hd])
		}
	}
}

// mix computes RWKV time mixing for one position and updates the state.
func (d *Decoder[F]) mix(y *decodeLayer[F], m *timeMix[F]) {
	c, x := d.m.Config, y.norm1.Row(0)
	lerp(y.r.X.Row(0), x, y.prev, m.lerpR.Data)
	lerp(y.k.X.Row(0), x, y.prev, m.lerpK.Data)
	lerp(y.v.X.Row(0), x, y.prev, m.lerpV.Data)
	copy(y.prev, x)
	y.r.Forward(0, 1, false)
	y.k.Forward(0, 1, false)
	y.v.Forward(0, 1, false)
	hd := c.HeadDim
	for h := range c.Heads {
		at, end := h*hd, (h+1)*hd
		decays(d.decay, m.decay.Data[at:end])
		recur(y.o.Row(0)[at:end], y.state[h*hd*hd:(h+1)*hd*hd], y.r.Y.Row(0)[at:end], y.k.Y.Row(0)[at:end], y.v.Y.Row(0)[at:end], m.first.Data[at:end], d.decay)
	}
	headNorms(y.mixed.Row(0), y.o.Row(0), d.rms, m.gain.Data, c)
}
