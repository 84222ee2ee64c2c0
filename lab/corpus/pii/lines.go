package pii

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// maxLine bounds a line in bytes.
const maxLine = 16 << 20

// ErrLine reports a line that is too long or not UTF-8.
var ErrLine = errors.New("unfit line")

// Report counts lines and findings.
type Report struct {
	Lines int64          `json:"lines"`
	Found map[Kind]int64 `json:"found"`
}

// Lines writes the lines of r to w with placeholders or, if spans is set, the
// findings of each line as JSON, with offsets in characters and without the
// values.
func (d *Detector) Lines(w io.Writer, r io.Reader, spans bool) (*Report, error) {
	report := &Report{Found: map[Kind]int64{}}
	for _, k := range Kinds() {
		if d.kinds[k] {
			report.Found[k] = 0
		}
	}
	in := bufio.NewScanner(r)
	in.Buffer(nil, maxLine+1)
	out := bufio.NewWriter(w)
	for in.Scan() {
		report.Lines++
		line := in.Text()
		if !utf8.ValidString(line) {
			return nil, fmt.Errorf("%w: line %d is not UTF-8", ErrLine, report.Lines)
		}
		found := d.Find(line)
		for _, f := range found {
			report.Found[f.Kind]++
		}
		if err := writeLine(out, line, found, spans); err != nil {
			return nil, err
		}
	}
	if err := in.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("%w: line %d exceeds %d bytes", ErrLine, report.Lines+1, maxLine)
	} else if err != nil {
		return nil, err
	}
	return report, out.Flush()
}

func writeLine(out *bufio.Writer, line string, found []Finding, spans bool) error {
	text := Replace(line, found)
	if spans {
		list := []Finding{}
		for _, f := range found {
			n := utf8.RuneCountInString(line[f.Start:f.End])
			f.Start = utf8.RuneCountInString(line[:f.Start])
			f.End = f.Start + n
			list = append(list, f)
		}
		data, err := json.Marshal(list)
		if err != nil {
			return err
		}
		text = string(data)
	}
	if _, err := out.WriteString(text); err != nil {
		return err
	}
	return out.WriteByte('\n')
}
