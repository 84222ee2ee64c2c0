package spdx

import (
	"strings"
	"testing"
)

func TestLimits(t *testing.T) {
	for n, ok := range map[int]bool{maxExpression: true, maxExpression + 1: false} {
		if _, err := Parse("MIT" + strings.Repeat(" ", n-3)); (err == nil) != ok {
			t.Errorf("maxExpression: %d bytes: %v", n, err)
		}
	}
	if _, err := Parse("GPL"); err == nil || strings.Count(err.Error(), "GPL-") != maxSuggested {
		t.Errorf("maxSuggested: %v", err)
	}
	for n, ok := range map[int]bool{maxChoices: true, maxChoices + 1: false} {
		e, err := Parse("ISC" + strings.Repeat(" OR ISC", n-1))
		if err != nil || (e.Choices() != nil) != ok {
			t.Errorf("maxChoices: %d: %v", n, err)
		}
	}
}
