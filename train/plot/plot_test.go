package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func svg(t *testing.T, c Chart) string {
	t.Helper()
	var b bytes.Buffer
	if err := SVG(&b, c); err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(bytes.NewReader(b.Bytes()))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return b.String()
		} else if err != nil {
			t.Fatalf("%v in %s", err, b.String())
		}
	}
}

// Each point is drawn in the frame, names are escaped, and the output is deterministic.
func TestSVG(t *testing.T) {
	c := Chart{Title: "Loss", X: "tokens", Y: "nats", Lines: []Line{
		{Name: "training & <more>", Color: "#1f77b4", Points: []Point{{0, 8}, {500000, 4}, {1000000, 2}}},
		{Name: "bigram 3.50", Dashed: true, Points: []Point{{0, 3.5}, {1000000, 3.5}}},
	}}
	got := svg(t, c)
	if got != svg(t, c) {
		t.Error("not deterministic")
	}
	for _, want := range []string{"training &amp; &lt;more&gt;", `stroke="#1f77b4"`, "stroke-dasharray", ">1M<", ">200k<", ">8<", ">tokens<", ">nats<", ">Loss<"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	lines := regexp.MustCompile(`points="([^"]*)"`).FindAllStringSubmatch(got, -1)
	if len(lines) != 2 {
		t.Fatalf("%d lines", len(lines))
	}
	// The axes end at 1M and at 8, on the frame.
	var last float64
	for i, p := range strings.Fields(lines[0][1]) {
		x, y, _ := strings.Cut(p, ",")
		fx, _ := strconv.ParseFloat(x, 64)
		fy, _ := strconv.ParseFloat(y, 64)
		want := []Point{{left, top}, {(left + width - right) / 2, (top + height - bottom) / 2}, {width - right, top + float64(height-bottom-top)*0.75}}[i]
		if math.Abs(fx-want.X) > 0.01 || math.Abs(fy-want.Y) > 0.01 || fx < last {
			t.Errorf("point %d at %s, want %v", i, p, want)
		}
		last = fx
	}
}

func TestAxis(t *testing.T) {
	for most, want := range map[float64][2]float64{0: {1, 0.2}, 1: {1, 0.2}, 8: {8, 2}, 7.1: {8, 2}, 6: {6, 1}, 99: {100, 20}, 6_144_000: {8e6, 2e6}, 0.03: {0.03, 0.005}} {
		a := newAxis(most, 0, 100)
		if a.end < most || math.Abs(a.end-want[0]) > 1e-9*a.end || math.Abs(a.step-want[1]) > 1e-9*a.step {
			t.Errorf("up to %v: %+v", most, a)
		}
		n := 0
		for range a.steps() {
			n++
		}
		if n < 2 || n > ticks+2 {
			t.Errorf("up to %v: %d lines", most, n)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, p := range []Point{{-1, 0}, {0, -1}, {math.NaN(), 0}, {0, math.NaN()}, {math.Inf(1), 0}, {0, math.Inf(1)}} {
		if SVG(io.Discard, Chart{Lines: []Line{{Points: []Point{p}}}}) == nil {
			t.Errorf("%v accepted", p)
		}
	}
	svg(t, Chart{}) // an empty chart is valid
}
