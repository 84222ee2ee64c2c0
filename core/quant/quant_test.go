package quant

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/tensor"
)

var (
	written = []tensor.Type{
		tensor.F32, tensor.F16, tensor.BF16, tensor.Q8_0, tensor.Q4_0, tensor.Q4_1, tensor.Q5_0, tensor.Q5_1, tensor.IQ4_NL,
		tensor.IQ4_XS, tensor.MXFP4, tensor.Q2_K, tensor.Q3_K, tensor.Q4_K, tensor.Q5_K, tensor.Q6_K, tensor.Q8_K,
	}
)

func normal(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// rmse returns the root mean square error relative to the rms of want.
func rmse(got, want []float32) float64 {
	var e, s float64
	for i := range got {
		d := float64(got[i] - want[i])
		e += d * d
		s += float64(want[i]) * float64(want[i])
	}
	return math.Sqrt(e / s)
}

// TestRoundTrip bounds the error of each type on normally distributed weights.
func TestRoundTrip(t *testing.T) {
	bounds := map[tensor.Type]float64{
		tensor.F32: 0, tensor.F16: 2.5e-4, tensor.BF16: 2e-3, tensor.Q8_0: 6e-3, tensor.Q8_K: 8e-3,
		tensor.Q6_K: 0.0185, tensor.Q4_K: 0.074, tensor.Q4_0: 0.092, tensor.Q4_1: 0.084, tensor.Q5_0: 0.046,
		tensor.Q5_1: 0.041, tensor.Q5_K: 0.038, tensor.IQ4_NL: 0.08, tensor.IQ4_XS: 0.081, tensor.MXFP4: 0.14, tensor.Q3_K: 0.16, tensor.Q2_K: 0.31,
	}
	r := rand.New(rand.NewPCG(1, 1))
	x := normal(r, 256*400)
	for _, typ := range written {
		b := make([]byte, typ.RowBytes(len(x)))
		Quantize(b, x, typ)
		y := make([]float32, len(x))
		Dequantize(y, b, typ)
		if e := rmse(y, x); e > bounds[typ] || e < bounds[typ]*0.8 {
			t.Errorf("%v: relative error %.5f, want just below %v", typ, e, bounds[typ])
		}
	}
}

// Quantizing is idempotent.
func TestQuantizeAgain(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	x := normal(r, 256*50)
	for _, typ := range []tensor.Type{tensor.F32, tensor.F16, tensor.BF16, tensor.Q8_0, tensor.Q4_0, tensor.Q8_K} {
		b, y := make([]byte, typ.RowBytes(len(x))), make([]float32, len(x))
		Quantize(b, x, typ)
		Dequantize(y, b, typ)
		z := make([]float32, len(x))
		Quantize(b, y, typ)
		Dequantize(z, b, typ)
		if e := rmse(z, y); e > 1e-3 {
			t.Errorf("%v: second quantization changes values by %v", typ, e)
		}
	}
}

// TestBlocks decodes blocks written by hand from the layouts.
func TestBlocks(t *testing.T) {
	ramp := func(b []byte, at, n int) {
		for i := range n {
			b[at+i] = byte(i*37 + 11)
		}
	}
	for _, typ := range written {
		if typ.BlockSize() == 1 {
			continue
		}
		b := make([]byte, typ.BlockBytes())
		ramp(b, 0, len(b))
		n := typ.BlockSize()
		nibble := func(q []byte, i int) float32 { // the order of Q4_0
			if i < 16 {
				return float32(q[i] & 15)
			}
			return float32(q[i-16] >> 4)
		}
		bit := func(h []byte, i int) float32 { return float32(h[i/8] >> (i % 8) & 1) }
		want := make([]float32, n)
		for i := range want {
			switch typ {
			case tensor.Q8_0:
				want[i] = half(b) * float32(int8(b[2+i]))
			case tensor.Q4_0:
				want[i] = half(b) * (nibble(b[2:], i) - 8)
			case tensor.Q4_1:
				want[i] = half(b)*nibble(b[4:], i) + half(b[2:])
			case tensor.Q5_0:
				want[i] = half(b) * (nibble(b[6:], i) + 16*bit(b[2:], i) - 16)
			case tensor.Q5_1:
				want[i] = half(b)*(nibble(b[8:], i)+16*bit(b[4:], i)) + half(b[2:])
			case tensor.IQ4_NL:
				want[i] = half(b) * float32(TableIQ4()[int(nibble(b[2:], i))])
			case tensor.MXFP4: // e is 11
				want[i] = float32(math.Ldexp(float64(TableMXFP4()[int(nibble(b[1:], i))]), 11-128))
			case tensor.IQ4_XS:
				g := i / 32
				s := int(b[4+g/2]>>(g%2*4)&15) + int(b[2+g/4]>>(g%4*2)&3)*16 - 32
				want[i] = half(b) * float32(s) * float32(TableIQ4()[int(nibble(b[8+g*16:], i%32))])
			case tensor.Q2_K:
				s := b[i/16]
				q := b[16+i/128*32+i%32] >> (i / 32 % 4 * 2) & 3
				want[i] = half(b[80:])*float32(s&15)*float32(q) - half(b[82:])*float32(s>>4)
			case tensor.Q3_K:
				g := i / 16
				q := int(b[32+i/128*32+i%32]>>(i/32%4*2)&3) + int(b[i%32]>>(i/32)&1)*4
				s := int(b[96+g%8]>>(g/8*4)&15) + int(b[104+g%4]>>(g/4*2)&3)*16 - 32
				want[i] = half(b[108:]) * float32(s) * float32(q-4)
			case tensor.Q4_K, tensor.Q5_K:
				g, l := i/32, i%32
				quants := b[16:]
				if typ == tensor.Q5_K {
					quants = b[48:]
				}
				q := quants[g/2*32+l] >> (g % 2 * 4) & 15
				if typ == tensor.Q5_K {
					q += b[16+l] >> g & 1 * 16
				}
				s := b[4:16]
				sc, m := s[g%4]&63, s[g%4+4]&63
				if g >= 4 {
					sc, m = s[g+4]&15+s[g-4]>>6*16, s[g+4]>>4+s[g]>>6*16
				}
				want[i] = half(b)*float32(sc)*float32(q) - half(b[2:])*float32(m)
			case tensor.Q6_K:
				h, l := i/128, i%128
				low := b[h*64+l%64] >> (l / 64 * 4) & 15
				high := b[128+h*32+l%32] >> (l / 32 * 2) & 3
				want[i] = half(b[208:]) * float32(int8(b[192+i/16])) * (float32(low+high*16) - 32)
			case tensor.Q8_K:
				want[i] = math.Float32frombits(uint32(b[0])|uint32(b[1])<<8|uint32(b[2])<<16|uint32(b[3])<<24) * float32(int8(b[4+i]))
			}
		}
		got := make([]float32, n)
		Dequantize(got, b, typ)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%v: (-want +got)\n%s", typ, d)
		}
	}
}

// No weight and no byte pattern causes a panic.
func TestHostileNumbers(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	r := rand.New(rand.NewPCG(3, 3))
	for _, special := range [][]float32{{0}, {inf}, {-inf}, {nan}, {inf, -inf}, {math.MaxFloat32, -math.MaxFloat32}, {math.SmallestNonzeroFloat32}, {1, nan}, {5}, {-5}} {
		x := make([]float32, 256)
		for i := range x {
			x[i] = special[i%len(special)]
		}
		for _, typ := range written {
			b := make([]byte, typ.RowBytes(256))
			Quantize(b, x, typ)
			Dequantize(make([]float32, 256), b, typ)
		}
	}
	for _, typ := range written {
		b := make([]byte, typ.RowBytes(256))
		for range 200 {
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			Dequantize(make([]float32, 256), b, typ)
		}
	}
	// A constant row is represented exactly, or to the precision of its scale.
	for _, typ := range written {
		x, y := make([]float32, 256), make([]float32, 256)
		for i := range x {
			x[i] = -0.75
		}
		b := make([]byte, typ.RowBytes(256))
		Quantize(b, x, typ)
		Dequantize(y, b, typ)
		if e := rmse(y, x); e > 2e-3 {
			t.Errorf("%v: constant row: error %v", typ, e)
		}
	}
}

// Halves are rounded away from zero like in ggml, so that the bytes are equal.
func TestTies(t *testing.T) {
	x := make([]float32, 32)
	copy(x, []float32{127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5, -126.5, 0.25})
	b := make([]byte, 34)
	Quantize(b, x, tensor.Q8_0)
	want := []int8{127, 1, 2, 3, -1, -2, -3, 127, -127, 0}
	for i, w := range want {
		if got := int8(b[2+i]); got != w {
			t.Errorf("Q8_0: %v becomes %d, want %d", x[i], got, w)
		}
	}
	// The types with a minimum round upward from it.
	clear(x)
	copy(x, []float32{0, 15, 0.5, 1.5, 14.5, 0.25})
	b = make([]byte, 20)
	Quantize(b, x, tensor.Q4_1)
	for i, w := range []byte{0, 15, 1, 2, 15, 0} {
		if got := b[4+i] & 15; got != w {
			t.Errorf("Q4_1: %v becomes %d, want %d", x[i], got, w)
		}
	}
	// Halfway between two values of the IQ4 table, the upper one is chosen.
	table := TableIQ4()
	for v, want := range map[float32]int8{7: 13, -4.5: 1, 6.9: 1, -115.5: -104, -200: -127, 200: 113, 0: 1} {
		if got := table[nearestIQ4(v)]; got != want {
			t.Errorf("IQ4: %v becomes %d, want %d", v, got, want)
		}
	}
	// E2M1 rounds toward zero.
	clear(x)
	copy(x, []float32{12, 0.5, 1.5, 2.5, 3.5, 5, 7, -10, 10.5, -0.5})
	b = make([]byte, 17)
	Quantize(b, x, tensor.MXFP4)
	for i, w := range []byte{7, 0, 1, 2, 3, 4, 5, 8 + 6, 7, 0} {
		if got := b[1+i] & 15; got != w {
			t.Errorf("MXFP4: %v becomes %d, want %d", x[i], got, w)
		}
	}
}

// Formats that subtract a non-negative minimum cannot represent a positive one.
// Groups above zero are spread over 0 to their largest element.
func TestOneSided(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	x, y := make([]float32, 256*20), make([]float32, 256*20)
	for i := range x {
		x[i] = 1 + float32(r.Float64())
	}
	for typ, bound := range map[tensor.Type]float64{tensor.Q4_K: 0.0255, tensor.Q5_K: 0.0125, tensor.Q2_K: 0.1} {
		b := make([]byte, typ.RowBytes(len(x)))
		Quantize(b, x, typ)
		Dequantize(y, b, typ)
		if e := rmse(y, x); e > bound || e < 0.8*bound {
			t.Errorf("%v: relative error %.5f, want just below %v", typ, e, bound)
		}
	}
	// Formats that add the minimum represent these groups well.
	for typ, bound := range map[tensor.Type]float64{tensor.Q4_1: 0.0135, tensor.Q5_1: 0.0066} {
		b := make([]byte, typ.RowBytes(len(x)))
		Quantize(b, x, typ)
		Dequantize(y, b, typ)
		if e := rmse(y, x); e > bound || e < 0.8*bound {
			t.Errorf("%v: relative error %.5f, want just below %v", typ, e, bound)
		}
	}
}

// Scales of few bits survive encoding, and MXFP4's exponents are the powers of
// two of the standard.
func TestScales(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for range 100 {
		var b [12]byte
		var want [16]int8
		for g := range want {
			want[g] = int8(r.IntN(64) - 32)
			putScaleQ3K(b[:], g, int(want[g]))
		}
		for g, w := range want {
			if got := ScaleQ3K(b[:], g); got != w {
				t.Fatalf("group %d: %d became %d", g, w, got)
			}
		}
	}
	for e := range 256 {
		if got, want := ScaleMXFP4(byte(e)), float32(math.Ldexp(1, e-128)); got != want {
			t.Errorf("exponent %d: %v, want %v", e, got, want)
		}
	}
}

func TestScaleMin(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for range 100 {
		var s [12]byte
		var want, got [16]byte
		for g := range 8 {
			want[2*g], want[2*g+1] = byte(r.Uint32()&63), byte(r.Uint32()&63)
			putScaleMin(s[:], g, want[2*g], want[2*g+1])
		}
		for g := range 8 {
			got[2*g], got[2*g+1] = ScaleMin(s[:], g)
		}
		if want != got {
			t.Fatalf("%v became %v", want, got)
		}
	}
}

func TestRecipe(t *testing.T) {
	type row struct {
		name string
		dims []int
		want tensor.Type
	}
	llama := Model{Layers: 16}
	for _, c := range []struct {
		recipe string
		model  Model
		rows   []row
	}{
		{"Q4_K_M", llama, []row{
			{"token_embd.weight", []int{2048, 32000}, tensor.Q4_K},
			{"output.weight", []int{2048, 32000}, tensor.Q6_K},
			{"output_norm.weight", []int{2048}, tensor.F32},
			{"blk.0.attn_q.weight", []int{2048, 2048}, tensor.Q4_K},
			{"blk.0.attn_q.bias", []int{2048}, tensor.F32},
			{"blk.0.attn_v.weight", []int{2048, 512}, tensor.Q6_K},    // first eighth
			{"blk.2.attn_v.weight", []int{2048, 512}, tensor.Q4_K},    // (2-2)%3 = 0
			{"blk.4.ffn_down.weight", []int{8192, 2048}, tensor.Q6_K}, // (4-2)%3 = 2
			{"blk.5.ffn_down.weight", []int{8192, 2048}, tensor.Q4_K},
			{"blk.14.ffn_down.weight", []int{8192, 2048}, tensor.Q6_K}, // last eighth
			{"blk.14.ffn_up.weight", []int{2048, 8192}, tensor.Q4_K},
		}},
		{"Q4_K_M", Model{Layers: 30, Tied: true}, []row{ // the shapes of SmolLM2
			{"token_embd.weight", []int{576, 49152}, tensor.Q8_0},
			{"blk.7.attn_q.weight", []int{576, 576}, tensor.Q5_0},
			{"blk.0.attn_v.weight", []int{576, 192}, tensor.Q8_0},
			{"blk.7.ffn_down.weight", []int{1536, 576}, tensor.Q4_K},
			{"blk.0.ffn_down.weight", []int{1536, 576}, tensor.Q6_K},
			{"blk.0.attn_norm.weight", []int{576}, tensor.F32},
			{"blk.3.attn_q.weight", []int{172, 64}, tensor.F16},
		}},
		{"Q5_K_M", Model{Layers: 30}, []row{
			{"blk.0.attn_v.weight", []int{576, 192}, tensor.Q8_0},
			{"blk.7.attn_q.weight", []int{576, 576}, tensor.Q5_1},
			{"blk.7.ffn_down.weight", []int{1536, 576}, tensor.Q5_K},
			{"blk.29.ffn_down.weight", []int{1536, 576}, tensor.Q6_K},
		}},
		{"Q4_K_S", llama, []row{
			{"blk.3.attn_v.weight", []int{2048, 512}, tensor.Q5_K}, {"blk.4.attn_v.weight", []int{2048, 512}, tensor.Q4_K},
			{"blk.1.ffn_down.weight", []int{8192, 2048}, tensor.Q5_K}, {"blk.2.ffn_down.weight", []int{8192, 2048}, tensor.Q4_K},
		}},
		{"Q3_K_M", Model{Layers: 32}, []row{
			{"token_embd.weight", []int{2048, 32000}, tensor.Q3_K},
			{"blk.1.attn_v.weight", []int{2048, 512}, tensor.Q5_K}, {"blk.2.attn_v.weight", []int{2048, 512}, tensor.Q4_K},
			{"blk.1.ffn_down.weight", []int{8192, 2048}, tensor.Q5_K}, {"blk.2.ffn_down.weight", []int{8192, 2048}, tensor.Q4_K},
			{"blk.9.attn_output.weight", []int{2048, 2048}, tensor.Q4_K}, {"blk.9.ffn_gate.weight", []int{2048, 8192}, tensor.Q3_K},
			{"blk.9.ffn_gate.weight", []int{576, 8192}, tensor.Q4_0},
		}},
		{"Q3_K_L", llama, []row{{"blk.9.ffn_down.weight", []int{8192, 2048}, tensor.Q5_K}, {"blk.9.attn_output.weight", []int{2048, 2048}, tensor.Q5_K}}},
		{"Q3_K_S", llama, []row{{"blk.9.ffn_down.weight", []int{8192, 2048}, tensor.Q3_K}}},
		{"Q2_K", llama, []row{
			{"blk.9.attn_v.weight", []int{2048, 512}, tensor.Q3_K}, {"blk.9.ffn_down.weight", []int{8192, 2048}, tensor.Q3_K},
			{"blk.9.attn_output.weight", []int{2048, 2048}, tensor.Q3_K}, {"blk.9.attn_q.weight", []int{2048, 2048}, tensor.Q2_K},
			{"blk.9.attn_q.weight", []int{576, 576}, tensor.Q4_0},
		}},
		{"Q2_K", Model{Layers: 16, Group: 4}, []row{{"blk.9.attn_v.weight", []int{2048, 512}, tensor.Q4_K}}},
		{"IQ4_NL", Model{Layers: 16, Group: 4}, []row{
			{"blk.9.attn_v.weight", []int{2048, 512}, tensor.Q5_K}, {"blk.9.attn_v.weight", []int{576, 512}, tensor.Q5_1},
			{"blk.1.ffn_down.weight", []int{8192, 2048}, tensor.Q5_K}, {"blk.2.ffn_down.weight", []int{8192, 2048}, tensor.IQ4_NL},
		}},
		{"IQ4_NL", llama, []row{{"blk.9.attn_v.weight", []int{2048, 512}, tensor.IQ4_NL}}},
		{"IQ4_XS", llama, []row{{"blk.9.attn_v.weight", []int{2048, 512}, tensor.IQ4_XS}, {"blk.9.attn_q.weight", []int{576, 512}, tensor.IQ4_NL}}},
		{"Q4_1", llama, []row{{"blk.9.ffn_down.weight", []int{172, 64}, tensor.F16}, {"blk.0.attn_v.weight", []int{2048, 512}, tensor.Q4_1}}},
		{"Q4_0", llama, []row{
			{"token_embd.weight", []int{2048, 32000}, tensor.Q4_0},
			{"output.weight", []int{2048, 32000}, tensor.Q6_K},
			{"blk.0.attn_v.weight", []int{2048, 512}, tensor.Q4_0},
		}},
		{"Q4_0", Model{Layers: 16, Importance: true}, []row{
			{"blk.1.ffn_down.weight", []int{8192, 2048}, tensor.Q4_1}, {"blk.2.ffn_down.weight", []int{8192, 2048}, tensor.Q4_0},
		}},
		{"Q5_0", llama, []row{{"blk.1.ffn_down.weight", []int{8192, 2048}, tensor.Q5_0}}},
		{"Q5_0", Model{Layers: 16, Importance: true}, []row{{"blk.1.ffn_down.weight", []int{8192, 2048}, tensor.Q5_1}}},
		{"IQ4_XS", Model{Layers: 16, Importance: true}, []row{{"blk.1.ffn_down.weight", []int{8192, 2048}, tensor.IQ4_XS}}},
		{"Q8_0", llama, []row{
			{"output.weight", []int{2048, 32000}, tensor.Q8_0},
			{"blk.9.ffn_down.weight", []int{172, 64}, tensor.F16},
		}},
		{"F16", llama, []row{{"output.weight", []int{2048, 32000}, tensor.F16}, {"output_norm.weight", []int{2048}, tensor.F32}}},
		{"Q4_K_M", Model{Layers: 16, Experts: 64}, []row{ // what stays F32, and the parts of experts
			{"blk.0.ffn_gate_inp.weight", []int{2048, 64}, tensor.F32},
			{"blk.0.ffn_gate_inp_shexp.weight", []int{2048, 256}, tensor.F32},
			{"blk.0.ssm_conv1d.weight", []int{4, 4096}, tensor.F32},
			{"blk.0.ssm_norm.weight", []int{256, 8}, tensor.F32},
			{"blk.0.shortconv.conv.weight", []int{3, 2048}, tensor.F32},
			{"blk.0.ssm_a", []int{1, 64}, tensor.F32},
			{"position_embd.weight", []int{768, 1024}, tensor.F32},
			{"token_types.weight", []int{768, 256}, tensor.F32},
			{"blk.0.ssm_in.weight", []int{2048, 8512}, tensor.Q4_K},
			{"blk.0.ffn_down_exps.weight", []int{1024, 2048, 64}, tensor.Q6_K},
			{"blk.0.ffn_down_shexp.weight", []int{1024, 2048}, tensor.Q6_K},
			{"blk.2.ffn_down_exps.weight", []int{1024, 2048, 64}, tensor.Q4_K},
			{"blk.0.ffn_up_exps.weight", []int{2048, 1024, 64}, tensor.Q4_K},
			{"blk.0.attn_k_b.weight", []int{128, 512, 16}, tensor.Q5_0},
			{"blk.0.attn_v_b.weight", []int{512, 128, 16}, tensor.Q4_K},
		}},
		{"F16", Model{Layers: 2}, []row{{"blk.0.ffn_gate_inp.weight", []int{2048, 64}, tensor.F32}, {"blk.0.shortconv.conv.weight", []int{3, 2048}, tensor.F32}}},
		{"Q4_K_M", Model{Layers: 16, Experts: 8}, []row{
			{"blk.5.attn_v.weight", []int{2048, 512}, tensor.Q8_0}, {"blk.5.attn_k.weight", []int{2048, 512}, tensor.Q8_0},
			{"blk.5.attn_output.weight", []int{2048, 2048}, tensor.Q5_K}, {"blk.5.attn_q.weight", []int{2048, 2048}, tensor.Q4_K},
		}},
		{"Q3_K_L", Model{Layers: 16, Experts: 8}, []row{{"blk.5.attn_output.weight", []int{2048, 2048}, tensor.Q3_K}}},
		{"Q4_K_M", Model{Layers: 8, Attends: []bool{false, true, false, true, true, false, true, true}}, []row{ // layers of attention count alone
			{"blk.1.attn_v.weight", []int{2048, 512}, tensor.Q4_K}, {"blk.4.attn_v.weight", []int{2048, 512}, tensor.Q6_K},
			{"blk.7.attn_v.weight", []int{2048, 512}, tensor.Q6_K}, {"blk.4.ffn_down.weight", []int{2048, 512}, tensor.Q4_K},
		}},
		{"Q4_K_M", Model{Layers: 16, Falcon: true}, []row{
			{"output.weight", []int{2048, 32000}, tensor.Q8_0}, {"blk.0.ffn_down.weight", []int{8192, 2048}, tensor.Q6_K},
			{"blk.1.ffn_down.weight", []int{8192, 2048}, tensor.Q5_K}, {"blk.2.attn_qkv.weight", []int{2048, 2176}, tensor.Q4_K},
			{"blk.4.attn_qkv.weight", []int{2048, 2176}, tensor.Q6_K},
		}},
	} {
		r, err := ParseRecipe(c.recipe)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range c.rows {
			if got := r.Type(row.name, row.dims, c.model); got != row.want {
				t.Errorf("%s: %s %v: got %v, want %v", c.recipe, row.name, row.dims, got, row.want)
			}
		}
	}
	if _, err := ParseRecipe("Q1_K"); err == nil {
		t.Error("unknown recipe accepted")
	}
}

func TestPanics(t *testing.T) {
	for name, f := range map[string]func(){
		"short dst":     func() { Quantize(make([]byte, 33), make([]float32, 32), tensor.Q8_0) },
		"partial block": func() { Quantize(make([]byte, 34), make([]float32, 31), tensor.Q8_0) },
		"no writer":     func() { Quantize(make([]byte, 66), make([]float32, 256), tensor.IQ2_XXS) },
		"no reader":     func() { Dequantize(make([]float32, 1), make([]byte, 4), tensor.I32) },
		"wrong size":    func() { Dequantize(make([]float32, 32), make([]byte, 33), tensor.Q8_0) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

func BenchmarkQuantize(b *testing.B) {
	x := normal(rand.New(rand.NewPCG(5, 5)), 4096)
	for _, typ := range written {
		b.Run(typ.String(), func(b *testing.B) {
			dst := make([]byte, typ.RowBytes(len(x)))
			b.SetBytes(int64(4 * len(x)))
			for b.Loop() {
				Quantize(dst, x, typ)
			}
		})
	}
}

func ExampleQuantize() {
	row := make([]float32, 32)
	for i := range row {
		row[i] = float32(i) / 8
	}
	block := make([]byte, tensor.Q8_0.RowBytes(len(row)))
	Quantize(block, row, tensor.Q8_0)
	Dequantize(row, block, tensor.Q8_0)
	fmt.Printf("%d bytes, last %.3f\n", len(block), row[31])
	// Output: 34 bytes, last 3.876
}
