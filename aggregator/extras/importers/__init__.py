"""Moving in from other tools: their files become our config, what they stored our positions."""
