package encdec

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// SRT writes segments as SubRip subtitles.
func SRT(w io.Writer, segments []Segment) error {
	n := 0
	for _, s := range segments {
		text := lines(s.Text)
		if text == "" {
			continue
		}
		n++
		if _, err := fmt.Fprintf(w, "%d\n%s --> %s\n%s\n\n", n, clock(s.Start, ","), clock(s.End, ","), strings.ReplaceAll(text, "-->", "->")); err != nil {
			return err
		}
	}
	return nil
}

// VTT writes segments as WebVTT subtitles.
func VTT(w io.Writer, segments []Segment) error {
	if _, err := io.WriteString(w, "WEBVTT\n\n"); err != nil {
		return err
	}
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	for _, s := range segments {
		text := lines(s.Text)
		if text == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s --> %s\n%s\n\n", clock(s.Start, "."), clock(s.End, "."), escape.Replace(text)); err != nil {
			return err
		}
	}
	return nil
}

// lines removes what would end a subtitle or disturb a terminal: control characters
// and empty lines.
func lines(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }), " ")
}

// clock writes a time as hours, minutes, seconds and milliseconds.
func clock(seconds float64, mark string) string {
	ms := int64(math.Round(seconds * 1000))
	return fmt.Sprintf("%02d:%02d:%02d%s%03d", ms/3600000, ms/60000%60, ms/1000%60, mark, ms%1000)
}
