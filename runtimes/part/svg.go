package part

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"strings"
	"time"
)

// The layout in SVG units.
const (
	boxWidth, boxHeight = 190, 64
	gapX, gapY          = 46, 18
	margin, head        = 16, 34
	maxWords            = 30 // characters of a line in a box
)

// column returns the column of a step, from left to right.
func column(what string) int {
	switch what {
	case StepEncode:
		return 0
	case StepProject, StepRecall:
		return 1
	case StepPool:
		return 2
	case StepPrompt:
		return 3
	case StepDecode:
		return 5
	}
	return 4
}

// fill returns the color of a step.
func fill(s Step) string {
	switch {
	case s.Cached != "":
		return "#eeeeee"
	case s.What == StepEncode:
		return "#dbeafe"
	case s.What == StepProject, s.What == StepPool:
		return "#e0f2e9"
	case s.What == StepDecode:
		return "#fde8d7"
	}
	return "#fdf3c8"
}

// DrawSteps renders the steps as an SVG graph. A box shows a step's part, engine,
// outputs and times; lines lead from the steps whose results it used. The output is
// deterministic.
func DrawSteps(w io.Writer, title string, steps []Step) error {
	var at [][2]int // of each box
	used := map[int]int{}
	place := map[int]int{} // columns in use, without gaps
	for c := range 6 {
		for _, s := range steps {
			if _, ok := place[c]; !ok && column(s.What) == c {
				place[c] = len(place)
			}
		}
	}
	most := 1
	for _, s := range steps {
		c := place[column(s.What)]
		at = append(at, [2]int{margin + c*(boxWidth+gapX), head + margin + used[c]*(boxHeight+gapY)})
		used[c]++
		most = max(most, used[c])
	}
	width := 2*margin + max(len(place), 1)*(boxWidth+gapX) - gapX
	height := head + 2*margin + most*(boxHeight+gapY) - gapY
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", width, height)
	fmt.Fprintf(out, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	words(out, margin, head-10, 13, title)
	for i, s := range steps {
		for _, from := range s.After {
			if from < 0 || from >= i {
				return fmt.Errorf("step %d cannot follow step %d", i, from)
			}
			a, b := at[from], at[i]
			x0, y0, x1, y1 := a[0]+boxWidth, a[1]+boxHeight/2, b[0], b[1]+boxHeight/2
			fmt.Fprintf(out, `<path d="M%d %dC%d %d %d %d %d %d" fill="none" stroke="#888"/>`+"\n", x0, y0, x0+gapX/2, y0, x1-gapX/2, y1, x1, y1)
		}
	}
	for i, s := range steps {
		x, y := at[i][0], at[i][1]
		fmt.Fprintf(out, `<rect x="%d" y="%d" width="%d" height="%d" rx="4" fill="%s" stroke="#555"/>`+"\n", x, y, boxWidth, boxHeight, fill(s))
		words(out, x+8, y+15, 11, s.What+" "+s.Part)
		words(out, x+8, y+29, 10, where(s))
		words(out, x+8, y+43, 10, result(s))
		words(out, x+8, y+57, 10, took(s))
	}
	fmt.Fprintln(out, "</svg>")
	return out.Flush()
}

func where(s Step) string {
	if s.Cached != "" {
		return "from " + s.Cached
	}
	if s.Backend == "" {
		return ""
	}
	return "on " + s.Backend
}

// result returns the outputs of a step, or its note.
func result(s Step) string {
	var out []string
	for _, t := range s.Out {
		out = append(out, t.String())
	}
	if len(out) == 0 {
		return s.Note
	}
	return strings.Join(out, "; ")
}

func took(s Step) string {
	text := "at " + shown(s.Start) + ": " + shown(s.Run)
	if s.Prepare > 0 {
		text += ", input " + shown(s.Prepare)
	}
	if s.Load > 0 {
		text += ", load " + shown(s.Load)
	}
	return text
}

func shown(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

// words writes a line of text, truncated to the width of a box.
func words(w io.Writer, x, y, size int, s string) {
	if r := []rune(s); len(r) > maxWords+10 {
		s = string(r[:maxWords+9]) + "…"
	}
	fmt.Fprintf(w, `<text x="%d" y="%d" font-size="%d">%s</text>`+"\n", x, y, size, html.EscapeString(strings.ToValidUTF8(printable(s), "?")))
}

// printable replaces characters that XML forbids.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0xfffe || r == 0xffff || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}
