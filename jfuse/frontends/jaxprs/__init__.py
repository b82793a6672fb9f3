"""Jaxprs read equation by equation, whatever they were traced from."""
