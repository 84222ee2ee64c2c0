package runner

import (
	"bytes"
	"fmt"
	"image/png"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/runtimes/modality"
)

// A picture is blank if no color channel varies by more than maxEven of 255, a sound
// if no sample exceeds maxQuiet. Of 40 drawings of the reference decoder, the palest
// varies by 119; its pictures for prompts outside of its domain vary by 13 or less.
const (
	maxEven  = 32
	maxQuiet = 1e-3
)

// blank reports whether an output has no content.
func blank(m *Made) (bool, error) {
	if m.Modality == abi.Audio {
		v, err := modality.Numbers(m.Tensor)
		for _, x := range v {
			if x > maxQuiet || x < -maxQuiet {
				return false, err
			}
		}
		return err == nil, err
	}
	img, err := png.Decode(bytes.NewReader(m.Data))
	if err != nil {
		return false, err
	}
	low, high := [3]uint32{0xFFFF, 0xFFFF, 0xFFFF}, [3]uint32{}
	for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y; y++ {
		for x := img.Bounds().Min.X; x < img.Bounds().Max.X; x++ {
			r, g, b, _ := img.At(x, y).RGBA()
			for i, v := range [3]uint32{r, g, b} {
				if low[i], high[i] = min(low[i], v), max(high[i], v); (high[i]-low[i])>>8 > maxEven {
					return false, nil
				}
			}
		}
	}
	return true, nil
}

// Doubts lists a withheld answer and outputs without content, one a line: the input or the
// prompt is probably outside of the domain of the modules.
func (a *Answer) Doubts() []string {
	var lines []string
	if a.Withheld != "" {
		lines = append(lines, fmt.Sprintf("the answer %q is withheld: its probability of being right is %.0f %%", a.Withheld, 100**a.Confidence))
	}
	for _, m := range a.Made {
		if what := map[abi.Modality]string{abi.Image: "picture", abi.Audio: "sound"}[m.Modality]; m.Blank {
			lines = append(lines, fmt.Sprintf("the %s by %s is blank: the prompt may be unlike those that it was trained on", what, m.Part.Name))
		}
	}
	return lines
}
