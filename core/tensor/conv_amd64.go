//go:build amd64 && !purego

package tensor

// bestConv holds the fastest kernels that this processor runs.
var bestConv = func() *convLevel {
	switch {
	case hasAVX512:
		return &convAVX512
	case hasAVX2:
		return &convAVX2
	}
	return nil
}()

var convAVX512 = convLevel{
	lanes:     16,
	two:       [tileLimit + 1]convKernel{nil, conv2x1AVX512, conv2x2AVX512, conv2x3AVX512, conv2x4AVX512, conv2x5AVX512, conv2x6AVX512, conv2x7AVX512, conv2x8AVX512, conv2x9AVX512, conv2x10AVX512, conv2x11AVX512, conv2x12AVX512, conv2x13AVX512, conv2x14AVX512},
	one:       [tileLimit + 1]convKernel{nil, conv1x1AVX512, conv1x2AVX512, conv1x3AVX512, conv1x4AVX512, conv1x5AVX512, conv1x6AVX512, conv1x7AVX512, conv1x8AVX512, conv1x9AVX512, conv1x10AVX512, conv1x11AVX512, conv1x12AVX512, conv1x13AVX512, conv1x14AVX512},
	depthwise: [tileLimit + 1]convKernel{nil, own1AVX512, own2AVX512, own3AVX512, own4AVX512, own5AVX512, own6AVX512, own7AVX512, own8AVX512, own9AVX512, own10AVX512, own11AVX512, own12AVX512, own13AVX512, own14AVX512},
	maxPool:   [tileLimit + 1]convKernel{nil, most1AVX512, most2AVX512, most3AVX512, most4AVX512, most5AVX512, most6AVX512, most7AVX512, most8AVX512, most9AVX512, most10AVX512, most11AVX512, most12AVX512, most13AVX512, most14AVX512},
	shape:     shapeAVX512,
	lane:      mulLanesAVX512,
	sum:       sumLanesAVX512,
	in:        winogradInAVX512,
	out:       winogradOutAVX512,
}

var convAVX2 = convLevel{
	lanes:     8,
	two:       [tileLimit + 1]convKernel{nil, conv2x1AVX2, conv2x2AVX2, conv2x3AVX2, conv2x4AVX2, conv2x5AVX2, conv2x6AVX2},
	one:       [tileLimit + 1]convKernel{nil, conv1x1AVX2, conv1x2AVX2, conv1x3AVX2, conv1x4AVX2, conv1x5AVX2, conv1x6AVX2},
	depthwise: [tileLimit + 1]convKernel{nil, own1AVX2, own2AVX2, own3AVX2, own4AVX2, own5AVX2, own6AVX2, own7AVX2, own8AVX2, own9AVX2, own10AVX2, own11AVX2, own12AVX2},
	maxPool:   [tileLimit + 1]convKernel{nil, most1AVX2, most2AVX2, most3AVX2, most4AVX2, most5AVX2, most6AVX2, most7AVX2, most8AVX2, most9AVX2, most10AVX2, most11AVX2, most12AVX2},
	shape:     shapeAVX2,
	lane:      mulLanesAVX2,
	sum:       sumLanesAVX2,
	in:        winogradInAVX2,
	out:       winogradOutAVX2,
}

// The kernels in conv_avx512_amd64.s and conv_avx2_amd64.s, for two blocks of
// channels and for one, by the width of their tiles in pixels.

//go:noescape
func conv2x1AVX512(a *convArgs)

//go:noescape
func conv2x2AVX512(a *convArgs)

//go:noescape
func conv2x3AVX512(a *convArgs)

//go:noescape
func conv2x4AVX512(a *convArgs)

//go:noescape
func conv2x5AVX512(a *convArgs)

//go:noescape
func conv2x6AVX512(a *convArgs)

//go:noescape
func conv2x7AVX512(a *convArgs)

//go:noescape
func conv2x8AVX512(a *convArgs)

//go:noescape
func conv2x9AVX512(a *convArgs)

//go:noescape
func conv2x10AVX512(a *convArgs)

//go:noescape
func conv2x11AVX512(a *convArgs)

//go:noescape
func conv2x12AVX512(a *convArgs)

//go:noescape
func conv2x13AVX512(a *convArgs)

//go:noescape
func conv2x14AVX512(a *convArgs)

//go:noescape
func conv1x1AVX512(a *convArgs)

//go:noescape
func conv1x2AVX512(a *convArgs)

//go:noescape
func conv1x3AVX512(a *convArgs)

//go:noescape
func conv1x4AVX512(a *convArgs)

//go:noescape
func conv1x5AVX512(a *convArgs)

//go:noescape
func conv1x6AVX512(a *convArgs)

//go:noescape
func conv1x7AVX512(a *convArgs)

//go:noescape
func conv1x8AVX512(a *convArgs)

//go:noescape
func conv1x9AVX512(a *convArgs)

//go:noescape
func conv1x10AVX512(a *convArgs)

//go:noescape
func conv1x11AVX512(a *convArgs)

//go:noescape
func conv1x12AVX512(a *convArgs)

//go:noescape
func conv1x13AVX512(a *convArgs)

//go:noescape
func conv1x14AVX512(a *convArgs)

//go:noescape
func own1AVX512(a *convArgs)

//go:noescape
func own2AVX512(a *convArgs)

//go:noescape
func own3AVX512(a *convArgs)

//go:noescape
func own4AVX512(a *convArgs)

//go:noescape
func own5AVX512(a *convArgs)

//go:noescape
func own6AVX512(a *convArgs)

//go:noescape
func own7AVX512(a *convArgs)

//go:noescape
func own8AVX512(a *convArgs)

//go:noescape
func own9AVX512(a *convArgs)

//go:noescape
func own10AVX512(a *convArgs)

//go:noescape
func own11AVX512(a *convArgs)

//go:noescape
func own12AVX512(a *convArgs)

//go:noescape
func own13AVX512(a *convArgs)

//go:noescape
func own14AVX512(a *convArgs)

//go:noescape
func most1AVX512(a *convArgs)

//go:noescape
func most2AVX512(a *convArgs)

//go:noescape
func most3AVX512(a *convArgs)

//go:noescape
func most4AVX512(a *convArgs)

//go:noescape
func most5AVX512(a *convArgs)

//go:noescape
func most6AVX512(a *convArgs)

//go:noescape
func most7AVX512(a *convArgs)

//go:noescape
func most8AVX512(a *convArgs)

//go:noescape
func most9AVX512(a *convArgs)

//go:noescape
func most10AVX512(a *convArgs)

//go:noescape
func most11AVX512(a *convArgs)

//go:noescape
func most12AVX512(a *convArgs)

//go:noescape
func most13AVX512(a *convArgs)

//go:noescape
func most14AVX512(a *convArgs)

//go:noescape
func conv2x1AVX2(a *convArgs)

//go:noescape
func conv2x2AVX2(a *convArgs)

//go:noescape
func conv2x3AVX2(a *convArgs)

//go:noescape
func conv2x4AVX2(a *convArgs)

//go:noescape
func conv2x5AVX2(a *convArgs)

//go:noescape
func conv2x6AVX2(a *convArgs)

//go:noescape
func conv1x1AVX2(a *convArgs)

//go:noescape
func conv1x2AVX2(a *convArgs)

//go:noescape
func conv1x3AVX2(a *convArgs)

//go:noescape
func conv1x4AVX2(a *convArgs)

//go:noescape
func conv1x5AVX2(a *convArgs)

//go:noescape
func conv1x6AVX2(a *convArgs)

//go:noescape
func own1AVX2(a *convArgs)

//go:noescape
func own2AVX2(a *convArgs)

//go:noescape
func own3AVX2(a *convArgs)

//go:noescape
func own4AVX2(a *convArgs)

//go:noescape
func own5AVX2(a *convArgs)

//go:noescape
func own6AVX2(a *convArgs)

//go:noescape
func own7AVX2(a *convArgs)

//go:noescape
func own8AVX2(a *convArgs)

//go:noescape
func own9AVX2(a *convArgs)

//go:noescape
func own10AVX2(a *convArgs)

//go:noescape
func own11AVX2(a *convArgs)

//go:noescape
func own12AVX2(a *convArgs)

//go:noescape
func most1AVX2(a *convArgs)

//go:noescape
func most2AVX2(a *convArgs)

//go:noescape
func most3AVX2(a *convArgs)

//go:noescape
func most4AVX2(a *convArgs)

//go:noescape
func most5AVX2(a *convArgs)

//go:noescape
func most6AVX2(a *convArgs)

//go:noescape
func most7AVX2(a *convArgs)

//go:noescape
func most8AVX2(a *convArgs)

//go:noescape
func most9AVX2(a *convArgs)

//go:noescape
func most10AVX2(a *convArgs)

//go:noescape
func most11AVX2(a *convArgs)

//go:noescape
func most12AVX2(a *convArgs)

// The kernels in conv_lanes_amd64.s, for n vectors of 16 or 8 numbers.

//go:noescape
func shapeAVX512(dst, x *float32, n int, s *Shaper)

//go:noescape
func mulLanesAVX512(dst, x, v *float32, n int)

//go:noescape
func sumLanesAVX512(dst, x *float32, n int)

//go:noescape
func shapeAVX2(dst, x *float32, n int, s *Shaper)

//go:noescape
func mulLanesAVX2(dst, x, v *float32, n int)

//go:noescape
func sumLanesAVX2(dst, x *float32, n int)

//go:noescape
func winogradInAVX512(dst *float32, step uintptr, src *float32, row uintptr, tmp *float32)

//go:noescape
func winogradOutAVX512(dst *float32, row uintptr, src *float32, step uintptr, tmp *float32, bias, add *float32, low, high float32)

//go:noescape
func winogradInAVX2(dst *float32, step uintptr, src *float32, row uintptr, tmp *float32)

//go:noescape
func winogradOutAVX2(dst *float32, row uintptr, src *float32, step uintptr, tmp *float32, bias, add *float32, low, high float32)
