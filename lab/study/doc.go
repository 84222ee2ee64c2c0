// Package study runs the trials of a study and answers its question: which change of a
// recipe helps, why, and how sure that is.
//
// A [Study] holds a base recipe of mm train, mutations of it, hypotheses with the result
// that refutes them, a budget and a scheduler. [Run] splits the documents by their digests
// into three parts: the trials train on the first, the scheduler chooses by the second, and
// the third is sealed until the choice is made. Every trial is a [Spec]; [Execute] is a
// pure function from its bytes to those of a [Result], so that another machine may compute
// it. Every result is a row of a chain (package lab/chain), which is the only state: a run
// that is killed continues at the next trial, and its answer is the same bit for bit.
// The [Answer] follows from the rows alone; [Open] reads them.
package study
