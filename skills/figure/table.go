package figure

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"mm-abi.org/mm/skills/sandbox"
)

// Table holds the label and the value of each bar.
type Table struct {
	Labels []string
	Values []float64
}

// Limits of a table.
const (
	maxRows  = 4096
	maxCell  = 256     // bytes of a label
	maxTable = 1 << 20 // bytes of a table
)

// charge is charged for the work of a call.
type charge interface {
	Step(n int64) error
	Hold(n int64) error
}

func faultf(format string, args ...any) error { return sandbox.Faultf(sandbox.Args, format, args...) }

// readTable parses CSV or JSON.
func readTable(c charge, data []byte) (Table, error) {
	if len(data) > maxTable {
		return Table{}, faultf("table too large: got %d bytes, limit %d", len(data), maxTable)
	}
	if err := c.Hold(int64(len(data)) * 8); err != nil {
		return Table{}, err
	}
	if err := c.Step(int64(len(data)) * 4); err != nil {
		return Table{}, err
	}
	if !utf8.Valid(data) {
		return Table{}, faultf("asset is not a PNG, JPEG or UTF-8 text")
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') {
		return readJSON(trimmed)
	}
	return readCSV(data)
}

// readCSV parses rows of a label and a number, or a row of labels above a row
// of numbers, separated by commas, semicolons or tabs. A first row without a
// number is a heading.
func readCSV(data []byte) (Table, error) {
	r := csv.NewReader(bytes.NewReader(data))
	r.FieldsPerRecord, r.TrimLeadingSpace = -1, true
	first, _, _ := strings.Cut(string(data), "\n")
	for _, comma := range []rune{'\t', ';', ','} {
		if strings.ContainsRune(first, comma) {
			r.Comma = comma
			break
		}
	}
	var rows [][]string
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Table{}, faultf("parsing the table: %v", err)
		}
		if rows = append(rows, row); len(rows) > maxRows {
			return Table{}, faultf("table too large: limit %d rows", maxRows)
		}
	}
	if len(rows) == 2 && len(rows[0]) == len(rows[1]) && len(rows[0]) > 2 { // horizontal
		var t Table
		for i, cell := range rows[1] {
			if v, ok := numberOf(cell); ok {
				t.Labels, t.Values = append(t.Labels, rows[0][i]), append(t.Values, v)
			}
		}
		return t.check()
	}
	var t Table
	for i, row := range rows {
		if len(row) < 2 {
			if len(row) == 0 || len(row) == 1 && strings.TrimSpace(row[0]) == "" {
				continue
			}
			return Table{}, faultf("table row %d: got one cell, want a label and a number", i+1)
		}
		v, ok := numberOf(row[1])
		if !ok {
			if i == 0 {
				continue // a heading
			}
			return Table{}, faultf("table row %d: invalid number %q", i+1, cut(row[1]))
		}
		t.Labels, t.Values = append(t.Labels, strings.TrimSpace(row[0])), append(t.Values, v)
	}
	return t.check()
}

// numberOf parses a cell: 1,234.5, 12 %, $3.
func numberOf(s string) (float64, bool) {
	s = strings.TrimSpace(s)
	s = strings.TrimSpace(strings.TrimRight(strings.TrimLeft(s, "$€£"), "%€$£"))
	if strings.Count(s, ",") > 0 && !strings.Contains(s, " ") {
		s = strings.ReplaceAll(s, ",", "")
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
}

// readJSON parses {"a": 1, …}, [["a", 1], …], [{"label": "a", "value": 1}, …],
// or {"labels": […], "values": […]}.
func readJSON(data []byte) (Table, error) {
	var t Table
	if data[0] == '{' {
		var both struct {
			Labels []string  `json:"labels"`
			Values []float64 `json:"values"`
		}
		if json.Unmarshal(data, &both) == nil && len(both.Labels) > 0 {
			if len(both.Labels) != len(both.Values) {
				return t, faultf("table has %d labels and %d values", len(both.Labels), len(both.Values))
			}
			return Table{both.Labels, both.Values}.check()
		}
		return readObject(data)
	}
	var rows []json.RawMessage
	if err := json.Unmarshal(data, &rows); err != nil {
		return t, faultf("parsing the table: %v", err)
	}
	if len(rows) > maxRows {
		return t, faultf("table too large: limit %d rows", maxRows)
	}
	for i, raw := range rows {
		var pair []json.RawMessage
		var label string
		var value float64
		if json.Unmarshal(raw, &pair) == nil && len(pair) == 2 && json.Unmarshal(pair[0], &label) == nil && json.Unmarshal(pair[1], &value) == nil {
			t.Labels, t.Values = append(t.Labels, label), append(t.Values, value)
			continue
		}
		var row struct {
			Label *string  `json:"label"`
			Value *float64 `json:"value"`
		}
		if json.Unmarshal(raw, &row) != nil || row.Label == nil || row.Value == nil {
			return t, faultf("table row %d: want [label, number] or {\"label\", \"value\"}", i+1)
		}
		t.Labels, t.Values = append(t.Labels, *row.Label), append(t.Values, *row.Value)
	}
	return t.check()
}

// readObject parses labels and numbers in the order of the file.
func readObject(data []byte) (Table, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	var t Table
	if _, err := dec.Token(); err != nil {
		return t, faultf("parsing the table: %v", err)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return t, faultf("parsing the table: %v", err)
		}
		var v float64
		if err := dec.Decode(&v); err != nil {
			return t, faultf("parsing the table: %q: %v", cut(key.(string)), err) // keys are strings
		}
		if t.Labels, t.Values = append(t.Labels, key.(string)), append(t.Values, v); len(t.Labels) > maxRows {
			return t, faultf("table too large: limit %d rows", maxRows)
		}
	}
	if _, err := dec.Token(); err != nil {
		return t, faultf("parsing the table: %v", err)
	}
	return t.check()
}

func (t Table) check() (Table, error) {
	if len(t.Values) == 0 {
		return t, faultf("table has no row of a label and a number")
	}
	if len(t.Values) > maxRows {
		return t, faultf("table too large: limit %d rows", maxRows)
	}
	for _, l := range t.Labels {
		if len(l) > maxCell {
			return t, faultf("label too long: got %d bytes, limit %d", len(l), maxCell)
		}
	}
	return t, nil
}

func cut(s string) string {
	if len(s) > 40 {
		return strings.ToValidUTF8(s[:40], "") + "…"
	}
	return s
}
