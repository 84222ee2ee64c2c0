package scene

// Outline is a character of a font: closed contours of straight lines, x from
// its origin and y down from the baseline, in 1/1024 of the em.
type Outline struct {
	Face     string
	Char     rune
	Contours [][][2]int
	Advance  int
}

// Outlines are the characters of the fonts of a split, by font and character:
// what else reads letters may be made after those that train, and judged by
// those that are held out.
func Outlines(split string) ([]Outline, error) {
	faces, err := readFaces(faceFile, split == Held)
	if err != nil {
		return nil, err
	}
	var out []Outline
	for _, f := range faces {
		for c := rune(0); c < 1<<8; c++ {
			g, ok := f.glyphs[c]
			if !ok {
				continue
			}
			o := Outline{Face: f.name, Char: c, Advance: g.advance}
			for _, contour := range g.contours {
				line := make([][2]int, len(contour))
				for i, p := range contour {
					line[i] = [2]int{p.x, p.y}
				}
				o.Contours = append(o.Contours, line)
			}
			out = append(out, o)
		}
	}
	return out, nil
}
