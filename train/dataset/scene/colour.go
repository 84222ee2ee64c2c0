package scene

// rgb is a color.
type rgb [3]uint8

// named is a color's name and its shades in each split.
type named struct {
	name        string
	train, held []rgb
}

// Maximum deviation of a shade from the table, per channel. Shades of the two
// splits differ by more than both together.
const (
	trainJitter = 5
	heldJitter  = 4
)

// colours are the named colors.
var colours = []named{
	{"red", []rgb{{220, 30, 30}, {200, 15, 45}, {240, 55, 50}, {180, 20, 25}}, []rgb{{212, 45, 12}, {225, 8, 58}}},
	{"green", []rgb{{30, 160, 50}, {40, 180, 70}, {20, 130, 40}, {60, 190, 60}}, []rgb{{45, 145, 78}, {15, 178, 30}}},
	{"blue", []rgb{{30, 70, 220}, {40, 90, 235}, {20, 50, 180}, {60, 110, 230}}, []rgb{{20, 85, 200}, {52, 58, 242}}},
	{"yellow", []rgb{{250, 220, 40}, {240, 210, 20}, {250, 235, 80}, {235, 200, 50}}, []rgb{{248, 228, 5}, {250, 212, 66}}},
	{"orange", []rgb{{250, 140, 20}, {240, 125, 30}, {250, 150, 50}, {235, 130, 10}}, []rgb{{245, 145, 35}, {250, 120, 10}}},
	{"purple", []rgb{{130, 50, 170}, {110, 40, 150}, {150, 70, 190}, {120, 30, 180}}, []rgb{{142, 38, 150}, {122, 66, 184}}},
	{"pink", []rgb{{250, 150, 190}, {250, 170, 205}, {240, 130, 180}, {250, 160, 175}}, []rgb{{245, 145, 208}, {250, 136, 162}}},
	{"brown", []rgb{{120, 70, 30}, {140, 85, 45}, {100, 60, 30}, {130, 75, 50}}, []rgb{{112, 78, 48}, {136, 68, 16}}},
	{"black", []rgb{{10, 10, 10}, {25, 25, 25}, {5, 5, 5}, {15, 15, 25}}, []rgb{{38, 36, 36}, {8, 8, 40}}},
	{"white", []rgb{{250, 250, 250}, {245, 245, 245}, {250, 250, 240}}, []rgb{{232, 232, 234}, {250, 238, 228}}},
	{"gray", []rgb{{130, 130, 130}, {150, 150, 150}, {110, 110, 110}, {140, 140, 150}}, []rgb{{118, 130, 142}, {165, 165, 162}}},
}

// grounds are the background colors, light ones first.
var grounds = struct{ train, held []rgb }{
	train: []rgb{
		{250, 250, 250}, {240, 240, 235}, {225, 225, 225}, {250, 240, 220}, {220, 232, 245}, {225, 240, 220}, {245, 225, 230},
		{10, 10, 15}, {40, 40, 45}, {25, 30, 60}, {55, 40, 30},
	},
	held: []rgb{{232, 240, 250}, {210, 225, 210}, {250, 245, 200}, {235, 215, 200}, {12, 30, 30}, {60, 60, 72}},
}

// distance approximates the perceived distance between two colors.
func distance(a, b rgb) int {
	dr, dg, db := int(a[0])-int(b[0]), int(a[1])-int(b[1]), int(a[2])-int(b[2])
	return sqrt(2*dr*dr + 4*dg*dg + 3*db*db)
}

// sqrt returns the integer part of the root of n.
func sqrt[T int | int64](n T) T {
	if n < 2 {
		return n
	}
	x := n
	for y := (x + 1) / 2; y < x; {
		x, y = y, (y+n/y)/2
	}
	return x
}

// shade returns a shade of the color.
func (p *pen) shade(name string) rgb {
	for _, c := range colours {
		if c.name != name {
			continue
		}
		if p.held {
			return p.jitter(pick(&p.dice, c.held), heldJitter)
		}
		return p.jitter(pick(&p.dice, c.train), trainJitter)
	}
	panic("scene: unknown color " + name)
}

// jitter changes each channel by at most by.
func (p *pen) jitter(c rgb, by int) rgb {
	for i, v := range c {
		c[i] = clamp(int(v) + p.span(-by, by))
	}
	return c
}

func clamp(v int) uint8 { return uint8(min(max(v, 0), 255)) }

// minContrast is the minimum distance of drawn colors from their ground.
const minContrast = 170

// against returns the colors visible on a ground, in the table's order, without
// light grays of ambiguous name.
func against(ground rgb) []string {
	var names []string
	for _, c := range colours {
		seen := true
		for _, list := range [][]rgb{c.train, c.held} {
			for _, s := range list {
				seen = seen && distance(s, ground) >= minContrast
			}
		}
		if seen {
			names = append(names, c.name)
		}
	}
	return names
}
