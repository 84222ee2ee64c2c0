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

// Formats lists the formats of a transcript.
func Formats() []string { return []string{"text", "json", "srt", "vtt"} }

// StampsFor reports whether a transcript in a format has the times of its segments.
func (m *Model) StampsFor(format string) bool {
	return format == "srt" || format == "vtt" || format == "json" && m.Stamps()
}

// WritePiece writes a piece of a text as it is generated; the other formats wait for the
// result.
func WritePiece(w io.Writer, format, text string) error {
	if format != "text" {
		return nil
	}
	_, err := io.WriteString(w, text)
	return err
}

// Write writes the result as subtitles, or ends the text that WritePiece wrote.
func (r *Result) Write(w io.Writer, format string) error {
	switch format {
	case "srt":
		return SRT(w, r.Segments)
	case "vtt":
		return VTT(w, r.Segments)
	}
	_, err := fmt.Fprintln(w)
	return err
}

// Summary describes the backend, the language and the times of a result in a line.
func (r *Result) Summary(backend string) string {
	language := ""
	if r.Language != "" {
		language = "; language " + r.Language
	}
	return fmt.Sprintf("%s%s; %.1f s of sound in %.2f s (encoder %.2f s, decoder %.2f s, %d ids)",
		backend, language, r.Seconds, (r.Encode + r.Decode).Seconds(), r.Encode.Seconds(), r.Decode.Seconds(), len(r.IDs))
}
