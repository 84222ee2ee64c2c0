package main

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/train/dataset/qa"
	"mm-abi.org/mm/train/dataset/scene"
)

// oddQuestions are asked about odd inputs; no answer is right.
var oddQuestions = map[string][]string{
	"image": {"what is in the picture?", "how many bars are there?", "what is the highest bar?", "what does it say?", "what color is the shape?"},
	"audio": {"what do you hear?", "which digit is spoken?", "which word is spoken?", "how many beeps are there?"},
}

// odd returns one example of each odd kind in turn.
func odd(medium string, seed uint64) (examples, error) {
	kinds := slices.Sorted(maps.Keys(oddPics))
	if medium == "audio" {
		kinds = slices.Sorted(maps.Keys(oddSounds))
	} else if medium != "image" {
		return examples{}, fmt.Errorf("medium: got %q, want image or audio", medium)
	}
	return examples{len(kinds), func(i int) qa.Example {
		rng, kind := rand.New(rand.NewPCG(uint64(i), seed)), kinds[i%len(kinds)]
		e := qa.Example{Kind: kind}
		if medium == "image" {
			e.Raster = oddPics[kind](rng)
		} else {
			e.Wave = oddSounds[kind](rng)
		}
		for _, q := range oddQuestions[medium] {
			e.Turns = append(e.Turns, qa.Turn{Ask: q, Answer: "-", Kind: kind})
		}
		return e
	}}, nil
}

// charts returns charts of the held-out split.
func charts(rng *rand.Rand) *scene.Source {
	src, err := scene.New(scene.Options{Split: scene.Held, Seed: rng.Uint64(), Kinds: []string{scene.Charts}})
	if err != nil {
		panic(err) // the options are constant
	}
	return src
}

// side is the width and the height of a picture.
const side = 128

// pic draws a picture.
func pic(f func(x, y int) (r, g, b float64)) *preprocess.Raster {
	p := make([]byte, 3*side*side)
	c := func(v float64) byte { return byte(math.Max(0, math.Min(255, v))) }
	for y := range side {
		for x := range side {
			r, g, b := f(x, y)
			p[3*(y*side+x)], p[3*(y*side+x)+1], p[3*(y*side+x)+2] = c(r), c(g), c(b)
		}
	}
	return &preprocess.Raster{W: side, H: side, C: 3, Pix: p}
}

// smooth returns noise of several octaves.
func smooth(rng *rand.Rand, oct int, decay float64) func(x, y int) float64 {
	type octave struct {
		n int
		v []float64
		a float64
	}
	var gs []octave
	a := 1.0
	for o := range oct {
		n := 2 << o
		v := make([]float64, (n+2)*(n+2))
		for i := range v {
			v[i] = rng.Float64()*2 - 1
		}
		gs = append(gs, octave{n, v, a})
		a *= decay
	}
	return func(x, y int) float64 {
		s := 0.0
		for _, g := range gs {
			fx, fy := float64(x)/side*float64(g.n), float64(y)/side*float64(g.n)
			ix, iy := int(fx), int(fy)
			tx, ty := fx-float64(ix), fy-float64(iy)
			at := func(i, j int) float64 { return g.v[j*(g.n+2)+i] }
			s += g.a * ((at(ix, iy)*(1-tx)+at(ix+1, iy)*tx)*(1-ty) + (at(ix, iy+1)*(1-tx)+at(ix+1, iy+1)*tx)*ty)
		}
		return s
	}
}

// oddPics draw pictures outside of the domain, by kind.
var oddPics = map[string]func(rng *rand.Rand) *preprocess.Raster{
	"noise": func(rng *rand.Rand) *preprocess.Raster {
		return pic(func(x, y int) (a, b, c float64) { return rng.Float64() * 255, rng.Float64() * 255, rng.Float64() * 255 })
	},
	"blank": func(rng *rand.Rand) *preprocess.Raster {
		r, g, b := rng.Float64()*255, rng.Float64()*255, rng.Float64()*255
		return pic(func(x, y int) (float64, float64, float64) { return r, g, b })
	},
	"gradient": func(rng *rand.Rand) *preprocess.Raster {
		var k [9]float64
		for i := range k {
			k[i] = rng.Float64()*400 - 100
		}
		return pic(func(x, y int) (float64, float64, float64) {
			u, v := float64(x)/side, float64(y)/side
			return k[0] + k[1]*u + k[2]*v, k[3] + k[4]*u + k[5]*v, k[6] + k[7]*u + k[8]*v
		})
	},
	"photo": func(rng *rand.Rand) *preprocess.Raster {
		l, h, e := smooth(rng, 6, 0.6), smooth(rng, 3, 0.5), smooth(rng, 3, 0.5)
		hor := 40 + rng.IntN(50)
		return pic(func(x, y int) (float64, float64, float64) {
			b := 120 + 70*l(x, y)
			if y < hor {
				return b + 30 + 30*h(x, y), b + 50, b + 80 + 20*e(x, y)
			}
			return b - 10 + 40*h(x, y), b + 10*e(x, y), b - 50
		})
	},
	"voronoi": func(rng *rand.Rand) *preprocess.Raster {
		n := 8 + rng.IntN(30)
		pts := make([][5]float64, n)
		for i := range pts {
			pts[i] = [5]float64{rng.Float64() * side, rng.Float64() * side, rng.Float64() * 255, rng.Float64() * 255, rng.Float64() * 255}
		}
		return pic(func(x, y int) (float64, float64, float64) {
			best, d := 0, math.Inf(1)
			for i, p := range pts {
				if q := (p[0]-float64(x))*(p[0]-float64(x)) + (p[1]-float64(y))*(p[1]-float64(y)); q < d {
					best, d = i, q
				}
			}
			return pts[best][2], pts[best][3], pts[best][4]
		})
	},
	"stripes": func(rng *rand.Rand) *preprocess.Raster {
		a, f := rng.Float64()*math.Pi, 0.1+rng.Float64()
		return pic(func(x, y int) (float64, float64, float64) {
			v := 127 + 120*math.Sin(f*(float64(x)*math.Cos(a)+float64(y)*math.Sin(a)))
			return v, v, v
		})
	},
	"pie": func(rng *rand.Rand) *preprocess.Raster {
		n := 3 + rng.IntN(4)
		var cols [8][3]float64
		for i := range cols {
			cols[i] = [3]float64{rng.Float64() * 255, rng.Float64() * 255, rng.Float64() * 255}
		}
		return pic(func(x, y int) (float64, float64, float64) {
			dx, dy := float64(x)-64, float64(y)-64
			if math.Hypot(dx, dy) > 50 {
				return 255, 255, 255
			}
			k := int((math.Atan2(dy, dx) + math.Pi) / (2 * math.Pi) * float64(n))
			c := cols[k%8]
			return c[0], c[1], c[2]
		})
	},
	"scatter": func(rng *rand.Rand) *preprocess.Raster {
		p := pic(func(x, y int) (float64, float64, float64) {
			if x == 14 || y == 112 {
				return 0, 0, 0
			}
			return 255, 255, 255
		})
		r, g, b := byte(rng.IntN(200)), byte(rng.IntN(200)), byte(rng.IntN(200))
		for range 30 + rng.IntN(40) {
			cx, cy := 18+rng.IntN(100), 8+rng.IntN(98)
			for y := -2; y < 3; y++ {
				for x := -2; x < 3; x++ {
					i := 3 * ((cy+y)*side + cx + x)
					p.Pix[i], p.Pix[i+1], p.Pix[i+2] = r, g, b
				}
			}
		}
		return p
	},
	"rotated": func(rng *rand.Rand) *preprocess.Raster {
		s := charts(rng).Make(0)
		return pic(func(x, y int) (float64, float64, float64) {
			i := 3 * ((side-1-x)*side + y)
			return float64(s.RGB[i]), float64(s.RGB[i+1]), float64(s.RGB[i+2])
		})
	},
	"two": func(rng *rand.Rand) *preprocess.Raster {
		src := charts(rng)
		a, b := src.Make(0), src.Make(1)
		return pic(func(x, y int) (float64, float64, float64) {
			s := a
			if x >= side/2 {
				s = b
			}
			i := 3 * (y*side + x*2%side)
			return float64(s.RGB[i]), float64(s.RGB[i+1]), float64(s.RGB[i+2])
		})
	},
}

// wave samples a sound.
func wave(n int, f func(i int) float64) *preprocess.Wave {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(math.Max(-1, math.Min(1, f(i))))
	}
	return &preprocess.Wave{Rate: 16000, Samples: v}
}

// oddSounds make sounds outside of the domain, by kind.
var oddSounds = map[string]func(rng *rand.Rand) *preprocess.Wave{
	"silence": func(rng *rand.Rand) *preprocess.Wave {
		return wave(8000+rng.IntN(30000), func(int) float64 { return 0 })
	},
	"white": func(rng *rand.Rand) *preprocess.Wave {
		a := 0.05 + rng.Float64()*0.5
		return wave(8000+rng.IntN(30000), func(int) float64 { return a * rng.NormFloat64() })
	},
	"brown": func(rng *rand.Rand) *preprocess.Wave {
		s := 0.0
		return wave(8000+rng.IntN(30000), func(int) float64 { s = 0.995*s + 0.03*rng.NormFloat64(); return s })
	},
	"chord": func(rng *rand.Rand) *preprocess.Wave {
		var f [4]float64
		for i := range f {
			f[i] = 150 + rng.Float64()*900
		}
		return wave(16000+rng.IntN(20000), func(i int) float64 {
			s := 0.0
			for _, x := range f {
				s += 0.15 * math.Sin(2*math.Pi*x*float64(i)/16000)
			}
			return s
		})
	},
	"melody": func(rng *rand.Rand) *preprocess.Wave {
		var f [16]float64
		for i := range f {
			f[i] = 220 * math.Pow(2, float64(rng.IntN(24))/12)
		}
		return wave(40000, func(i int) float64 {
			return 0.4 * math.Sin(2*math.Pi*f[i/2500%16]*float64(i)/16000) * math.Exp(-float64(i%2500)/1500)
		})
	},
	"clicks": func(rng *rand.Rand) *preprocess.Wave {
		p := 1e-4 + 1e-3*rng.Float64()
		return wave(30000, func(int) float64 {
			if rng.Float64() < p {
				return 0.9
			}
			return 0
		})
	},
}
