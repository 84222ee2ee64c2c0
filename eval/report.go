package eval

import (
	"encoding/json"
	"fmt"

	"mm-abi.org/mm/eval/suite"
	"mm-abi.org/mm/internal/fsx"
)

// ReportFile is the name of a report in the folder of results.
const ReportFile = "budgets.json"

// The limits of a report.
const (
	maxReport = 1 << 20
	maxRows   = 1024
)

// Report is a judgment of a build by its budgets. It is a measurement: another run has
// other times.
type Report struct {
	Source suite.Source `json:"source"`
	Rows   []Row        `json:"rows"`
}

// Write writes the report into a folder, next to the results of mm eval suite.
func (r Report) Write(dir string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	d, err := fsx.Create(dir, 0o755, fsx.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	return d.WriteFile(ReportFile, append(data, '\n'), 0o644)
}

// ReadReport reads a report.
func ReadReport(path string) (Report, error) {
	var r Report
	data, err := fsx.ReadFile(path, maxReport)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("%s: %w", path, err)
	}
	if len(r.Rows) > maxRows {
		return r, fmt.Errorf("%s: got %d budgets, limit %d", path, len(r.Rows), maxRows)
	}
	for i, row := range r.Rows {
		if row.Budget == "" {
			return r, fmt.Errorf("%s: row %d: no budget", path, i)
		}
	}
	return r, nil
}
