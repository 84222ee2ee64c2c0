package onnxfile

import (
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/train/net"
	"mm-abi.org/mm/train/nn"
)

// alike returns the form for all inputs of an element-wise step: planes or
// lines if all inputs are available only in that form, otherwise rows.
func (v *values) alike(s *net.Step) form {
	for _, f := range []form{planes, lines} {
		all := true
		for _, p := range s.Takes {
			all = all && v.has(p.Name, f) && p.Height == s.Takes[0].Height
		}
		if all {
			return f
		}
	}
	return rows
}

// arrange appends a layer without weights.
func (v *values) arrange(s *net.Step) {
	at, f := v.prefix+s.Name, v.alike(s)
	in := make([]string, len(s.Takes))
	for i, p := range s.Takes {
		in[i] = v.get(p.Name, f)
	}
	switch s.Kind {
	case "scale":
		x := v.node("Mul", at, []string{in[0], v.number(float32(s.Scale))})
		if s.Offset != 0 {
			x = v.node("Add", at+".offset", []string{x, v.number(float32(s.Offset))})
		}
		v.set(s, f, x)
	case "add":
		x := v.node("Add", at, []string{in[0], in[1]})
		for i, y := range in[2:] {
			x = v.node("Add", at+".more"+string(rune('a'+i)), []string{x, y})
		}
		v.set(s, f, x)
	case "multiply":
		v.set(s, f, v.node("Mul", at, in))
	case "upsample2d", "pixel_shuffle":
		v.enlarge(s)
	case "mean", "upsample1d", "concat", "slice", "reshape":
		v.rearrange(s, at)
	default:
		v.set(s, f, v.act(nn.Activation(s.Kind), at, in[0]))
	}
}

// rearrange appends a layer that moves rows or columns.
func (v *values) rearrange(s *net.Step, at string) {
	x, in, out := v.in(s, 0), s.Takes[0], s.Gives
	axis := int64(2)
	if s.Axis == "rows" {
		axis = 1
	}
	switch s.Kind {
	case "mean":
		a, wide := in.Rows/(s.Factor*s.Every), s.Every*in.Cols
		apart := v.reshape(at+".apart", x, 0, a, s.Factor, wide)
		x = v.node("ReduceMean", at+".mean", []string{apart}, onnx.IntList("axes", 2), onnx.Int("keepdims", 0))
		x = v.reshape(at, x, 0, out.Rows, out.Cols)
	case "upsample1d":
		apart := v.reshape(at+".apart", x, 0, in.Rows, 1, in.Cols)
		x = v.node("Expand", at+".repeated", []string{apart, v.ints(1, 1, s.Factor, 1)})
		x = v.reshape(at, x, 0, out.Rows, out.Cols)
	case "concat":
		all := make([]string, len(s.Takes))
		for i := range s.Takes {
			all[i] = v.in(s, i)
		}
		x = v.node("Concat", at, all, onnx.Int("axis", axis))
	case "slice":
		x = v.slice(at, x, int(axis), s.From, s.To)
	case "reshape":
		x = v.reshape(at, x, 0, out.Rows, out.Cols)
	}
	v.set(s, rows, x)
}

// enlarge appends a layer that enlarges an image.
func (v *values) enlarge(s *net.Step) {
	at, x := v.prefix+s.Name, v.picture(s)
	if s.Kind == "pixel_shuffle" {
		v.set(s, planes, v.node("DepthToSpace", at, []string{x}, onnx.Int("blocksize", int64(s.Factor)), onnx.String("mode", "DCR")))
		return
	}
	f := float32(s.Factor)
	scales := v.floats(s.Name+".scales", []float32{1, 1, f, f}, 4)
	v.set(s, planes, v.node("Resize", at, []string{x, "", scales}, onnx.String("mode", "nearest"),
		onnx.String("coordinate_transformation_mode", "asymmetric"), onnx.String("nearest_mode", "floor")))
}

// picture returns input 0 as planes of the step's height.
func (v *values) picture(s *net.Step) string {
	p := s.Takes[0]
	if p.Height == s.Height {
		return v.get(p.Name, planes)
	}
	return v.reshape(v.prefix+s.Name+".picture", v.get(p.Name, lines), 0, p.Cols, s.Height, p.Rows/s.Height)
}

// convolve appends a convolution or a transposed convolution.
func (v *values) convolve(s *net.Step) {
	at, g, w := v.prefix+s.Name, s.Geometry(), v.net.Params().Tensor(s.Name+".weight")
	op, line := "Conv", s.Kind == "conv1d" || s.Kind == "conv1d_transpose"
	var dims []int // [out, in of a group, KH, KW], or of a transposed one [in, out, KH, KW]
	var data []float32
	taps := g.KH * g.KW
	switch {
	case s.Kind == "conv1d_transpose" || s.Kind == "conv2d_transpose":
		op, dims = "ConvTranspose", []int{s.Takes[0].Cols, g.C}
		data = channelsFirst(w.Data, dims[0], taps, dims[1])
	case s.Depthwise():
		dims, data = []int{g.C, 1}, turned(w.Data, taps, g.C)
	default:
		dims = []int{s.Gives.Cols, g.C / s.Groups}
		data = channelsFirst(w.Data, dims[0], taps, dims[1])
	}
	f, x := lines, ""
	kernel, strides, pads := []int64{int64(g.KW)}, []int64{int64(g.SW)}, []int64{int64(g.PW), int64(g.PW)}
	if line {
		x = v.get(s.Takes[0].Name, lines)
		dims = append(dims, g.KW)
	} else {
		f, x = planes, v.picture(s)
		dims = append(dims, g.KH, g.KW)
		kernel, strides = append([]int64{int64(g.KH)}, kernel...), append([]int64{int64(g.SH)}, strides...)
		pads = []int64{int64(g.PH), int64(g.PW), int64(g.PH), int64(g.PW)}
	}
	in := []string{x, v.floats(w.Name, data, dims...)}
	if v.net.Params().Tensor(s.Name+".bias") != nil {
		in = append(in, v.weight(s.Name+".bias", s.Gives.Cols))
	}
	attributes := []onnx.Attribute{onnx.IntList("kernel_shape", kernel...), onnx.IntList("strides", strides...), onnx.IntList("pads", pads...)}
	if s.Groups > 1 {
		attributes = append(attributes, onnx.Int("group", int64(s.Groups)))
	}
	v.set(s, f, v.node(op, at, in, attributes...))
}

// channelsFirst transposes [a, taps, b] to [a, b, taps].
func channelsFirst(x []float32, a, taps, b int) []float32 {
	y := make([]float32, 0, len(x))
	for i := range a {
		y = append(y, turned(x[i*taps*b:(i+1)*taps*b], taps, b)...)
	}
	return y
}
