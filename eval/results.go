package eval

import (
	"os"
	"path/filepath"

	"mm-abi.org/mm/builds/card"
	"mm-abi.org/mm/eval/suite"
	"mm-abi.org/mm/internal/fsx"
)

// ReadResults reads the results of mm eval suite, a file or the folder of its --out, and
// names the limits of quality of budgets.yaml that they keep; "" sets no limits. A missed
// limit is an error.
func ReadResults(path, budgets string) (data []byte, kept []string, err error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, suite.ResultsFile)
	}
	if data, err = fsx.ReadFile(path, card.MaxResults); err != nil || budgets == "" {
		return data, nil, err
	}
	b, list := ReadBudgets(budgets)
	if list.Failed() {
		return nil, nil, list.Err()
	}
	run, list := suite.ParseRun(path, data, b.relative())
	if list.Failed() {
		return nil, nil, list.Err()
	}
	kept, list = b.JudgeResults(run)
	return data, kept, list.Err()
}
