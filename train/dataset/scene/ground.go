package scene

// ground fills the image, with a texture or not, and returns the color against
// which things must be visible. Plain images are white: no prompt describes
// their ground.
func (p *pen) ground(textured bool) rgb {
	list := grounds.train
	if p.held {
		list = grounds.held
	}
	c := pick(&p.dice, list)
	if p.plain {
		c = rgb{250, 250, 250}
	}
	c = p.jitter(c, heldJitter)
	for i := 0; i < len(p.rgb); i += 3 {
		p.rgb[i], p.rgb[i+1], p.rgb[i+2] = c[0], c[1], c[2]
	}
	if textured && !p.plain && !p.one(3) {
		p.texture(c)
	}
	return c
}

// texture draws a low-contrast pattern over the ground. Stripes, checks, slopes
// and specks are for training; rings, bricks and clouds are held out.
func (p *pen) texture(c rgb) {
	by := p.span(6, 16)
	if p.one(2) {
		by = -by
	}
	period, angle, phase := p.span(4, 16)*p.size/128+1, p.n(turn), 1<<11+p.n(1<<12)
	cx, cy := p.n(p.size), p.n(p.size)
	var cloud [9 * 9]int
	for i := range cloud {
		cloud[i] = p.n(257)
	}
	s, co := sin(angle), cos(angle)
	var at func(x, y int) int // share of by, of 256
	kind := p.n(4)
	switch {
	case !p.held && kind == 0: // stripes
		at = func(x, y int) int { return ((x*co+y*s)>>15 + phase) / period % 2 * 256 }
	case !p.held && kind == 1: // checks
		at = func(x, y int) int { return ((x+phase)/period + (y+phase)/period) % 2 * 256 }
	case !p.held && kind == 2: // a slope
		at = func(x, y int) int { return 128 + ((x-p.size/2)*co+(y-p.size/2)*s)>>7/p.size }
	case !p.held: // specks
		at = func(x, y int) int { return int(mix(uint64(phase)<<32+uint64(y)<<16+uint64(x))>>63) * 256 }
	case kind == 0: // rings
		at = func(x, y int) int { return sqrt((x-cx)*(x-cx)+(y-cy)*(y-cy)) / period % 2 * 256 }
	case kind == 1: // bricks
		at = func(x, y int) int {
			row := (y + phase) / period
			if (y+phase)%period == 0 || (x+row%2*period)%(2*period) == 0 {
				return 256
			}
			return 0
		}
	default: // clouds
		at = func(x, y int) int {
			fx, fy := x*8*256/p.size, y*8*256/p.size
			i, ax, ay := fy>>8*9+fx>>8, fx&255, fy&255
			return ((cloud[i]*(256-ax)+cloud[i+1]*ax)*(256-ay) + (cloud[i+9]*(256-ax)+cloud[i+10]*ax)*ay) >> 16
		}
	}
	i := 0
	for y := range p.size {
		for x := range p.size {
			d := at(x, y) * by / 256
			for k := range 3 {
				p.rgb[i+k] = clamp(int(c[k]) + d)
			}
			i += 3
		}
	}
}

// finish blurs some images and adds noise, like a camera.
func (p *pen) finish() {
	if p.plain {
		return
	}
	if p.one(4) {
		p.blur()
	}
	if p.one(2) {
		p.noise(p.span(2, 12))
	}
}

// noise changes each channel by up to by, with values in the middle most often.
func (p *pen) noise(by int) {
	for i := 0; i < len(p.rgb); i += 4 {
		r := p.pcg.Uint64()
		for k := range min(4, len(p.rgb)-i) {
			a, b := int(r>>(16*k)&255), int(r>>(16*k+8)&255)
			p.rgb[i+k] = clamp(int(p.rgb[i+k]) + (a-b)*by/256)
		}
	}
}

// blur replaces each pixel by the weighted mean of its 3 × 3 neighborhood.
func (p *pen) blur() {
	p.other = blurred(p.other, p.rgb, p.size, p.size)
	copy(p.rgb, p.other)
}

// blurred returns rgb [h, w, 3] under a binomial 3 × 3 kernel, in dst if large
// enough.
func blurred(dst, rgb []byte, w, h int) []byte {
	if cap(dst) < len(rgb) {
		dst = make([]byte, len(rgb))
	}
	dst = dst[:len(rgb)]
	for y := range h {
		up, down := max(y-1, 0)*w, min(y+1, h-1)*w
		for x := range w {
			left, right := max(x-1, 0), min(x+1, w-1)
			for c := range 3 {
				at := func(row, col int) int { return int(rgb[3*(row+col)+c]) }
				sum := at(up, left) + 2*at(up, x) + at(up, right) +
					2*(at(y*w, left)+2*at(y*w, x)+at(y*w, right)) +
					at(down, left) + 2*at(down, x) + at(down, right)
				dst[3*(y*w+x)+c] = uint8((sum + 8) / 16)
			}
		}
	}
	return dst
}
