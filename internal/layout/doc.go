// Package layout holds the test that keeps the direction of imports: programs
// import front ends, those the library, that the mechanisms, and those the plain
// values, never the other way. It has no code of its own.
//
// The direction is what makes a mechanism usable and testable alone: it knows
// nothing of sessions, MCP or HTTP. Layers erode silently, hence a test.
package layout
