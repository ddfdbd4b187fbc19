"""A slot: several stream tasks with one transactional writer, and the job that runs them."""
