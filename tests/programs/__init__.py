"""Tests of what two models differ in."""
