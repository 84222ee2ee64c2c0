package coreml

import (
	"testing"

	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/assemble/export/exporttest"
)

// TestJudge writes the models of MM_EXPORTS for the judge of make exports.
func TestJudge(t *testing.T) {
	exporttest.Judge(t, export.Lowered{Form: Exporter{}})
}

// The language models for the same judges.
func TestLanguage(t *testing.T) { exporttest.Language(t, export.Lowered{Form: Exporter{}}) }
