package executorch

import (
	"testing"

	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/assemble/export/exporttest"
)

// The files for ExecuTorch's runtime.
func TestJudge(t *testing.T) { exporttest.Judge(t, export.Lowered{Form: Exporter{}}) }

// The language models for the same judges.
func TestLanguage(t *testing.T) { exporttest.Language(t, export.Lowered{Form: Exporter{}}) }
